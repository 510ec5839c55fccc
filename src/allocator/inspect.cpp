// SPDX-License-Identifier: Apache-2.0
// The allocator's state as segments and blocks: to compare it with a recorded one, and to start from one.
#include <algorithm>

#include "allocator/caching.h"
#include "base/checked.h"

namespace plimsoll::allocator {

std::int64_t CachingAllocator::largest_free() const {
  std::int64_t largest = 0;
  for (const Pool& pool : pools_)
    for (const Cache& cache : pool.by_stream)
      if (!cache.free.empty()) largest = std::max(largest, at(cache.free.last(blocks_)).size);
  return largest;
}

std::vector<SegmentView> CachingAllocator::segments() const {
  std::vector<SegmentView> result;
  for (const Block& head : blocks_) {
    if (head.size == 0 || head.prev != kNoBlock) continue;
    bool open = false;  // an unmapped block ends a run
    for (const Block* block = &head; block != nullptr; block = block->next == kNoBlock ? nullptr : &at(block->next)) {
      if (!block->mapped) {
        open = false;
        continue;
      }
      if (!open) {
        result.push_back({block->address, 0, block->stream, block->cache / 2, block->small(), block->expandable(), {}});
        open = true;
      }
      const BlockState state = block->allocated ? BlockState::kAllocated
                               : block->pending ? BlockState::kPending
                                                : BlockState::kFree;
      result.back().size += block->size;
      const std::int64_t requested = state == BlockState::kFree ? 0 : block->requested;
      result.back().blocks.push_back({block->address, block->size, requested, state, block->owner});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const SegmentView& a, const SegmentView& b) { return a.address < b.address; });
  return result;
}

BlockId CachingAllocator::append_unmapped(BlockId last, std::int64_t size) {
  const BlockId id = new_block();
  const Block& before = at(last);
  Block& block = at(id);
  block.address = before.address + static_cast<Address>(before.size);
  block.size = size;
  block.cache = before.cache;
  block.stream = before.stream;
  block.range = before.range;
  block.mapped = false;
  block.prev = last;
  at(last).next = id;
  add_unmapped(id);
  return id;
}

BlockId CachingAllocator::append_block(const SegmentView& segment, const BlockView& view, std::int32_t range,
                                       BlockId last) {
  const BlockId id = new_block();
  Block& block = at(id);
  block.address = view.address;
  block.size = view.size;
  block.cache = segment.pool * 2 + (segment.small ? 0U : 1U);
  block.stream = segment.stream;
  block.range = range;
  block.owner = view.owner;
  block.prev = last;
  if (last != kNoBlock) at(last).next = id;
  if (view.state == BlockState::kFree) {
    insert_free(id);
    return id;
  }
  block.requested = view.requested;
  block.allocated = true;
  stats_.allocated += view.size;
  stats_.requested += view.requested;
  if (view.state == BlockState::kPending) request_free(id);
  return id;
}

// Runs of one pool and stream are taken to lie in one range that begins at the lowest: where it truly begins is
// not recorded, and matters only for a range that runs full.
std::vector<BlockId> CachingAllocator::restore(const std::vector<SegmentView>& segments) {
  struct Open {
    std::uint32_t cache;
    std::uint32_t stream;
    std::int32_t range;
    BlockId last;
  };
  std::vector<Open> ranges;
  std::vector<BlockId> ids;
  for (const SegmentView& segment : segments) {
    const std::uint32_t cache = segment.pool * 2 + (segment.small ? 0U : 1U);
    cache_at(cache, segment.stream);
    took(segment.size);
    Open* open = nullptr;
    if (segment.expandable) {
      for (Open& range : ranges)
        if (range.cache == cache && range.stream == segment.stream) open = &range;
      if (open == nullptr) {
        open = &ranges.emplace_back(cache, segment.stream, static_cast<std::int32_t>(ranges_.size()), kNoBlock);
        ranges_.push_back(Range{segment.address, 0, true, false});
      } else {
        const Address end = at(open->last).address + static_cast<Address>(at(open->last).size);
        if (end < segment.address)
          open->last = append_unmapped(open->last, static_cast<std::int64_t>(segment.address - end));
      }
    }
    BlockId last = open != nullptr ? open->last : kNoBlock;
    for (const BlockView& view : segment.blocks)
      ids.push_back(last = append_block(segment, view, open != nullptr ? open->range : kNoBlock, last));
    if (open != nullptr) open->last = last;
  }
  for (const Open& open : ranges) {
    Range& range = ranges_[static_cast<std::size_t>(open.range)];
    const Block& last = at(open.last);
    const auto mapped = static_cast<std::int64_t>(last.address + static_cast<Address>(last.size) - range.base);
    range.size = std::max(round_up(driver_.total() + driver_.total() / 8, granule(last)), mapped);
    if (range.size > mapped) append_unmapped(open.last, range.size - mapped);
  }
  stats_.device_allocs = 0;
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_requested = stats_.requested;
  return ids;
}

}  // namespace plimsoll::allocator
