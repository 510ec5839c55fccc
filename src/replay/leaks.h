// SPDX-License-Identifier: Apache-2.0
// What grows from step to step: objects of one origin of which more are alive at the end of every step. Optimizer
// steps mark the steps; a history without any is cut into equal parts, if it holds rounds: what grows within one step
// is no leak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/attribution.h"

namespace plimsoll::replay {

struct Leak {
  std::uint32_t stack = snapshot::kNoStack;
  std::int64_t object_bytes = 0;  // of one object, where there is no stack to tell origins apart; else 0
  std::int64_t per_step = 0;      // mean growth over the steps looked at
  std::int64_t first = 0;         // bytes alive after the first step looked at
  std::int64_t last = 0;          // and after the last
  std::size_t rises = 0;          // steps after which more was alive than before
};

struct LeakReport {
  std::size_t steps = 0;  // looked at, after the warm-up
  bool by_optimizer = false;
  std::vector<Leak> leaks;           // fastest first
  std::int64_t growth_per_step = 0;  // of everything alive
};

[[nodiscard]] LeakReport find_leaks(const History& history, const Attribution& attribution);

}  // namespace plimsoll::replay
