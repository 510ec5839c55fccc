// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "cli/last_words.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  std::set_terminate(plimsoll::cli::end_badly);
  plimsoll::cli::watch_memory();
  plimsoll::install_signal_handlers();
  // We throw nothing; what arrives here is out of memory or a mistake of ours.
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return plimsoll::cli::run_program(words, plimsoll::cli::process_console());
  } catch (...) {
    return plimsoll::cli::last_words();
  }
}
