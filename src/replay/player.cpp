// SPDX-License-Identifier: Apache-2.0
#include "replay/player.h"

#include <algorithm>

namespace plimsoll::replay {

void Player::restore_start() {
  std::vector<allocator::SegmentView> segments = history_.start;
  for (allocator::SegmentView& segment : segments) segment.stream = streams_[segment.stream];
  const std::vector<allocator::BlockId> blocks = allocator_.restore(segments);
  std::size_t next = 0;
  for (const allocator::SegmentView& segment : segments) {
    for (const allocator::BlockView& view : segment.blocks) {
      const allocator::BlockId id = blocks[next++];
      if (view.state != allocator::BlockState::kFree) block_[view.owner] = id;
    }
  }
}

bool Player::allocate_start() {
  std::vector<const Initial*> sorted;
  for (const Initial& initial : history_.initial) sorted.push_back(&initial);
  std::sort(sorted.begin(), sorted.end(), [](const Initial* a, const Initial* b) { return a->address < b->address; });
  for (const Initial* initial : sorted) {
    if (!allocate(initial->object)) return false;
    if (initial->pending) request_free(initial->object);
  }
  return true;
}

}  // namespace plimsoll::replay
