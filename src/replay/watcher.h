// SPDX-License-Identifier: Apache-2.0
// Who wants to see a replay go by, operation by operation, without holding it up.
#pragma once

#include <cstdint>

#include "allocator/caching.h"
#include "replay/history.h"

namespace plimsoll::replay {

class Watcher {
 public:
  Watcher() = default;
  virtual ~Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Before the first operation. A second call starts anew: the replay before it came to nothing.
  virtual void begin(const History& history, const allocator::Stats& stats) = 0;
  virtual void after(const Op& op, const allocator::Stats& stats) = 0;
};

}  // namespace plimsoll::replay
