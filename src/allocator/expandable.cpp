// SPDX-License-Identifier: Apache-2.0
// Expandable segments: ranges of address space that grow and shrink by granules (facts pytorch-allocator.md 7b).
#include <algorithm>

#include "allocator/caching.h"
#include "base/checked.h"

namespace plimsoll::allocator {

void CachingAllocator::add_unmapped(BlockId block) {
  std::vector<BlockId>& unmapped = cache_of(at(block)).unmapped;
  const auto place = std::lower_bound(unmapped.begin(), unmapped.end(), at(block).address,
                                      [this](BlockId id, Address address) { return at(id).address < address; });
  unmapped.insert(place, block);
}

void CachingAllocator::remove_unmapped(BlockId block) {
  std::vector<BlockId>& unmapped = cache_of(at(block)).unmapped;
  unmapped.erase(std::find(unmapped.begin(), unmapped.end(), block));
}

// Maps whole granules at the front of an unmapped block; the mapped part joins free neighbours and is free itself,
// but in no set.
bool CachingAllocator::map_front(BlockId id, std::int64_t bytes) {
  const std::int64_t size = std::min(round_up(bytes, granule(at(id))), at(id).size);
  if (!driver_.map(at(id).address, size)) return false;
  took(size);
  remove_unmapped(id);
  if (size < at(id).size) add_unmapped(cut_back(id, at(id).size - size));
  at(id).mapped = true;
  for (const BlockId neighbour : {at(id).prev, at(id).next}) {
    if (neighbour == kNoBlock || !at(neighbour).idle() || !at(neighbour).mapped) continue;
    erase_free(neighbour);
    absorb(id, neighbour);
  }
  return true;
}

BlockId CachingAllocator::new_range(const Place& place) {
  const BlockId id = new_block();
  at(id).cache = place.cache;
  at(id).stream = place.stream;
  at(id).mapped = false;
  at(id).range = static_cast<std::int32_t>(ranges_.size());
  const std::int64_t size = round_up(driver_.total() + driver_.total() / 8, granule(at(id)));
  const Address base = driver_.reserve_range(size);
  ranges_.push_back({base, size, base < kUnplaced});
  at(id).address = base;
  at(id).size = size;
  add_unmapped(id);
  return id;
}

// The lowest run of free and unmapped blocks that is long enough, else a new range. A request that no range can
// hold leaves its range behind, as PyTorch does.
BlockId CachingAllocator::grow_expandable(const Place& place) {
  const auto idle = [this](BlockId id) { return id != kNoBlock && at(id).idle(); };
  BlockId candidate = kNoBlock;
  for (const BlockId unmapped : cache_at(place.cache, place.stream).unmapped) {
    const BlockId before = at(unmapped).prev;
    const BlockId start = idle(before) && at(before).mapped ? before : unmapped;
    std::int64_t run = 0;
    for (BlockId block = start; idle(block) && run < place.rounded; block = at(block).next) run += at(block).size;
    if (run >= place.rounded) {
      candidate = start;
      break;
    }
  }
  if (candidate == kNoBlock) candidate = new_range(place);
  if (at(candidate).mapped) {
    erase_free(candidate);
  } else if (at(candidate).size < place.rounded && at(candidate).next == kNoBlock) {
    return kNoBlock;  // a range shorter than the request
  } else if (!map_front(candidate, std::min(place.rounded, at(candidate).size))) {
    return kNoBlock;
  }
  while (at(candidate).size < place.rounded) {
    const BlockId next = at(candidate).next;
    const std::int64_t missing = place.rounded - at(candidate).size;
    insert_free(candidate);  // where it stays, grown or not, when the device has no more
    if (!map_front(next, std::min(missing, at(next).size))) return kNoBlock;
    candidate = next;  // it has absorbed the block before it
  }
  return candidate;
}

// Gives back the whole granules inside a free block; the parts before and after stay free and mapped.
void CachingAllocator::unmap(BlockId id) {
  const Range& range = ranges_[static_cast<std::size_t>(at(id).range)];
  const auto offset = static_cast<std::int64_t>(at(id).address - range.base);
  const std::int64_t begin = round_up(offset, granule(at(id)));
  const std::int64_t end = (offset + at(id).size) / granule(at(id)) * granule(at(id));
  if (end <= begin) return;
  erase_free(id);
  if (begin > offset) insert_free(cut_front(id, begin - offset));
  if (at(id).size > end - begin) insert_free(cut_back(id, at(id).size - (end - begin)));
  driver_.unmap(at(id).address, at(id).size);
  gave(at(id).size);
  at(id).mapped = false;
  for (const BlockId neighbour : {at(id).prev, at(id).next}) {
    if (neighbour == kNoBlock || at(neighbour).mapped) continue;
    remove_unmapped(neighbour);
    absorb(id, neighbour);
  }
  if (!at(id).whole()) {
    add_unmapped(id);
    return;
  }
  driver_.drop_range(range.base, range.size);
  ranges_[static_cast<std::size_t>(at(id).range)].dropped = true;
  drop_block(id);
}

bool CachingAllocator::anchor_range(std::uint32_t stream, std::uint32_t pool, bool small, Address address) {
  for (const BlockId id : cache_at(pool * 2 + (small ? 0U : 1U), stream).unmapped) {
    Range& range = ranges_[static_cast<std::size_t>(at(id).range)];
    if (range.anchored) continue;
    remove_unmapped(id);
    at(id).address = range.base = address;
    range.anchored = true;
    add_unmapped(id);
    return true;
  }
  return false;
}

bool CachingAllocator::in_range(Address address) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [address](const Range& range) {
    return range.anchored && !range.dropped && address >= range.base &&
           address - range.base < static_cast<Address>(range.size);
  });
}

}  // namespace plimsoll::allocator
