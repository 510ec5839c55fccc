// SPDX-License-Identifier: Apache-2.0
#include "answer/ahead.h"

#include <exception>

#include "base/cores.h"
#include "rules/rules.h"
#include "timing/calibration.h"

namespace plimsoll::answer {

Ahead::Ahead() {
  const auto read = [] {
    try {
      (void)timing::built_in();
      (void)rules::catalogue();
    } catch (const std::exception&) {  // whoever asks for it next tries again, and says why not
    }
  };
  try {
    reader_ = std::jthread(read);
    send_to_another_core(reader_.native_handle());
  } catch (const std::exception&) {
  }
}

}  // namespace plimsoll::answer
