// SPDX-License-Identifier: Apache-2.0
#include "step/tape.h"

namespace plimsoll::step {

bool Tape::make_room() {
  constexpr std::size_t kFirst = 4096;
  constexpr auto kMost = static_cast<std::size_t>(kBudget.events);
  if (events_.size() < kMost) {
    events_.reserve(std::min(kMost, std::max(kFirst, 2 * events_.size())));
    return true;
  }
  recording_ = false;
  overflowed_ = true;
  events_ = {};
  marks_ = {};
  return false;
}

}  // namespace plimsoll::step
