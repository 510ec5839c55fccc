// SPDX-License-Identifier: Apache-2.0
// Who holds memory at an instant, as a tree of calls: the outermost function first, bytes summed over what it called.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/course.h"

namespace plimsoll::replay {

struct FlameNode {
  std::uint32_t frame = 0;   // number in Snapshot::frames; kNever for the root and for what has no stack
  std::uint32_t parent = 0;  // number in the list; the root is its own
  std::int64_t bytes = 0;
  std::size_t objects = 0;
};

// Parents before children; children of one node largest first. What is smaller than `least` bytes is left out: its
// bytes stay with its parent.
[[nodiscard]] std::vector<FlameNode> flame_after(const Course& course, std::uint32_t event, std::int64_t least);

}  // namespace plimsoll::replay
