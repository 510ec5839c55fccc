// SPDX-License-Identifier: Apache-2.0
#include "allocator/caching.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"

namespace plimsoll::allocator {

namespace {

std::int64_t segment_size(const Settings& settings, std::int64_t rounded) {
  if (rounded <= kSmallSize) return kSmallSegment;
  if (rounded < kMinLargeAlloc) return settings.large_segment;
  return round_up(rounded, kRoundLarge);
}

}  // namespace

CachingAllocator::CachingAllocator(const Settings& settings, Driver& driver) : settings_(settings), driver_(driver) {
  blocks_.reserve(4096);
}

CachingAllocator::BlockId CachingAllocator::new_block() {
  if (!spare_.empty()) {
    const BlockId id = spare_.back();
    spare_.pop_back();
    blocks_[index(id)] = Block{};
    return id;
  }
  blocks_.emplace_back();
  return static_cast<BlockId>(blocks_.size() - 1);
}

void CachingAllocator::drop_block(BlockId block) { spare_.push_back(block); }

void CachingAllocator::insert_free(BlockId block) {
  const Block& b = blocks_[index(block)];
  pool_of(b).free.insert({b.size, b.address, block});
}

void CachingAllocator::erase_free(BlockId block) {
  const Block& b = blocks_[index(block)];
  pool_of(b).free.erase({b.size, b.address, block});
}

void CachingAllocator::add_unmapped(Pool& pool, BlockId block) {
  const Address address = blocks_[index(block)].address;
  const auto at = std::lower_bound(pool.unmapped.begin(), pool.unmapped.end(), address,
                                   [this](BlockId id, Address a) { return blocks_[index(id)].address < a; });
  pool.unmapped.insert(at, block);
}

void CachingAllocator::remove_unmapped(Pool& pool, BlockId block) {
  pool.unmapped.erase(std::find(pool.unmapped.begin(), pool.unmapped.end(), block));
}

bool CachingAllocator::over_limit(std::int64_t more) const {
  if (settings_.fraction >= 1) return false;
  const auto allowed = static_cast<std::int64_t>(settings_.fraction * static_cast<double>(driver_.total()));
  return stats_.reserved + more > allowed;
}

// Section 4: the smallest block that is large enough; ties go to the lowest address. In expandable mode
// the tail that can still grow is used last.
CachingAllocator::BlockId CachingAllocator::find_free(Pool& pool, std::int64_t rounded) {
  auto it = pool.free.lower_bound({rounded, 0, kNone});
  if (it == pool.free.end()) return kNone;
  if (settings_.expandable_segments && blocks_[index(it->block)].expandable) {
    const auto reach = [this](BlockId id) {
      const Block& b = blocks_[index(id)];
      const bool grows = b.next != kNone && !blocks_[index(b.next)].mapped;
      return b.size + (grows ? blocks_[index(b.next)].size : 0);
    };
    for (auto next = std::next(it);
         next != pool.free.end() && blocks_[index(it->block)].expandable && reach(next->block) < reach(it->block);
         ++next)
      it = next;
  }
  if (rounded < settings_.max_split_size && it->size >= settings_.max_split_size) return kNone;
  if (rounded >= settings_.max_split_size && it->size >= rounded + settings_.max_non_split_rounding) return kNone;
  const BlockId found = it->block;
  pool.free.erase(it);
  return found;
}

CachingAllocator::BlockId CachingAllocator::new_segment(Pool& pool, std::int64_t rounded) {
  const std::int64_t size = segment_size(settings_, rounded);
  if (over_limit(size)) return kNone;
  if (settings_.expandable_segments) return grow_expandable(pool, rounded);
  const std::optional<Address> address = driver_.allocate(size);
  if (!address) return kNone;
  ++stats_.driver_calls;
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  const BlockId id = new_block();
  Block& block = blocks_[index(id)];
  block.address = *address;
  block.size = size;
  block.small = pool.small;
  return id;
}

// Maps whole granules at the front of an unmapped block; the mapped part joins a free block before it.
bool CachingAllocator::map_front(Pool& pool, BlockId unmapped, std::int64_t bytes, BlockId& mapped) {
  const std::int64_t granule = pool.small ? kSmallSegment : settings_.large_segment;
  const std::int64_t size = std::min(round_up(bytes, granule), blocks_[index(unmapped)].size);
  if (!driver_.map(size)) return false;
  ++stats_.driver_calls;
  stats_.reserved += size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  remove_unmapped(pool, unmapped);
  if (size < blocks_[index(unmapped)].size) {
    const BlockId rest = new_block();
    Block& block = blocks_[index(unmapped)];
    Block& tail = blocks_[index(rest)];
    tail = block;
    tail.address += static_cast<Address>(size);
    tail.size -= size;
    tail.prev = unmapped;
    if (tail.next != kNone) blocks_[index(tail.next)].prev = rest;
    block.next = rest;
    block.size = size;
    add_unmapped(pool, rest);
  }
  blocks_[index(unmapped)].mapped = true;
  mapped = unmapped;
  const BlockId prev = blocks_[index(unmapped)].prev;
  if (prev != kNone && !blocks_[index(prev)].allocated && blocks_[index(prev)].mapped) {
    erase_free(prev);
    merge(unmapped, prev);
  }
  const BlockId next = blocks_[index(unmapped)].next;
  if (next != kNone && !blocks_[index(next)].allocated && blocks_[index(next)].mapped) {
    erase_free(next);
    merge(unmapped, next);
  }
  return true;
}

// Section 7b: the lowest run of free and unmapped blocks that is long enough, else a new range.
CachingAllocator::BlockId CachingAllocator::grow_expandable(Pool& pool, std::int64_t rounded) {
  const auto idle = [this](BlockId id) { return id != kNone && !blocks_[index(id)].allocated; };
  BlockId candidate = kNone;
  for (const BlockId unmapped : pool.unmapped) {
    BlockId start = unmapped;
    if (idle(blocks_[index(unmapped)].prev) && blocks_[index(blocks_[index(unmapped)].prev)].mapped)
      start = blocks_[index(unmapped)].prev;
    std::int64_t run = 0;
    for (BlockId at = start; idle(at) && run < rounded; at = blocks_[index(at)].next) run += blocks_[index(at)].size;
    if (run >= rounded) {
      candidate = start;
      break;
    }
  }
  if (candidate == kNone) {
    const std::int64_t granule = pool.small ? kSmallSegment : settings_.large_segment;
    const std::int64_t range = round_up(driver_.total() + driver_.total() / 8, granule);
    if (range < rounded) return kNone;
    candidate = new_block();
    Block& block = blocks_[index(candidate)];
    block.address = driver_.reserve_range(range);
    block.size = range;
    block.mapped = false;
    block.expandable = true;
    block.small = pool.small;
    add_unmapped(pool, candidate);
  }
  BlockId mapped = candidate;
  if (!blocks_[index(candidate)].mapped) {
    if (!map_front(pool, candidate, std::min(rounded, blocks_[index(candidate)].size), mapped)) return kNone;
  } else {
    erase_free(candidate);
  }
  while (blocks_[index(mapped)].size < rounded) {
    const BlockId next = blocks_[index(mapped)].next;
    const std::int64_t missing = rounded - blocks_[index(mapped)].size;
    insert_free(mapped);
    BlockId joined = mapped;
    if (!map_front(pool, next, std::min(missing, blocks_[index(next)].size), joined)) return kNone;
    mapped = joined;
  }
  return mapped;
}

// Section 5: the front becomes the allocation, the rest stays cached.
void CachingAllocator::split(BlockId id, std::int64_t rounded) {
  const std::int64_t rest = blocks_[index(id)].size - rounded;
  const bool splits = blocks_[index(id)].small || settings_.expandable_segments
                          ? rest >= kMinBlock
                          : rounded < settings_.max_split_size && rest > kSmallSize;
  if (!splits) return;
  const BlockId tail_id = new_block();
  Block& block = blocks_[index(id)];
  Block& tail = blocks_[index(tail_id)];
  tail = block;
  tail.address += static_cast<Address>(rounded);
  tail.size = rest;
  tail.prev = id;
  if (tail.next != kNone) blocks_[index(tail.next)].prev = tail_id;
  block.next = tail_id;
  block.size = rounded;
  insert_free(tail_id);
}

// Absorbs a neighbour that is already out of the free set.
bool CachingAllocator::merge(BlockId id, BlockId neighbour) {
  Block& block = blocks_[index(id)];
  Block& other = blocks_[index(neighbour)];
  if (block.prev == neighbour) {
    block.address = other.address;
    block.prev = other.prev;
    if (block.prev != kNone) blocks_[index(block.prev)].next = id;
  } else {
    block.next = other.next;
    if (block.next != kNone) blocks_[index(block.next)].prev = id;
  }
  block.size += other.size;
  drop_block(neighbour);
  return true;
}

std::optional<CachingAllocator::BlockId> CachingAllocator::allocate(std::int64_t requested) {
  const std::int64_t rounded = round_size(settings_, requested);
  Pool& pool = pool_of(rounded);
  BlockId id = find_free(pool, rounded);
  if (id == kNone) id = new_segment(pool, rounded);
  if (id == kNone && release_oversize(pool, rounded)) id = new_segment(pool, rounded);
  if (id == kNone) {
    release_cached();
    ++stats_.retries;
    id = new_segment(pool, rounded);
  }
  if (id == kNone) return std::nullopt;
  split(id, rounded);
  Block& block = blocks_[index(id)];
  block.allocated = true;
  block.requested = requested;
  stats_.allocated += block.size;
  stats_.requested += requested;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  return id;
}

void CachingAllocator::free(BlockId id) {
  Block& block = blocks_[index(id)];
  stats_.allocated -= block.size;
  stats_.requested -= block.requested;
  block.allocated = false;
  for (const BlockId neighbour : {block.prev, block.next}) {
    if (neighbour == kNone) continue;
    const Block& other = blocks_[index(neighbour)];
    if (other.allocated || !other.mapped) continue;
    erase_free(neighbour);
    merge(id, neighbour);
  }
  insert_free(id);
}

void CachingAllocator::unmap(Pool& pool, BlockId id) {
  const std::int64_t granule = pool.small ? kSmallSegment : settings_.large_segment;
  // Granules are counted from the start of the range, which the driver aligns.
  const Block before = blocks_[index(id)];
  BlockId first = id;
  while (blocks_[index(first)].prev != kNone) first = blocks_[index(first)].prev;
  const auto offset = static_cast<std::int64_t>(before.address - blocks_[index(first)].address);
  const std::int64_t begin = round_up(offset, granule);
  const std::int64_t end = (offset + before.size) / granule * granule;
  if (end <= begin) return;
  erase_free(id);
  if (begin > offset) {  // the part in front stays mapped and free
    const BlockId front = new_block();
    Block& block = blocks_[index(id)];
    Block& head = blocks_[index(front)];
    head = block;
    head.size = begin - offset;
    head.next = id;
    if (head.prev != kNone) blocks_[index(head.prev)].next = front;
    block.prev = front;
    block.address += static_cast<Address>(begin - offset);
    block.size -= begin - offset;
    insert_free(front);
  }
  if (offset + before.size > end) {
    const BlockId back = new_block();
    Block& block = blocks_[index(id)];
    Block& tail = blocks_[index(back)];
    tail = block;
    tail.size = offset + before.size - end;
    tail.address = block.address + static_cast<Address>(block.size - tail.size);
    tail.prev = id;
    if (tail.next != kNone) blocks_[index(tail.next)].prev = back;
    block.next = back;
    block.size -= tail.size;
    insert_free(back);
  }
  driver_.unmap(blocks_[index(id)].size);
  ++stats_.driver_calls;
  stats_.reserved -= blocks_[index(id)].size;
  blocks_[index(id)].mapped = false;
  for (const BlockId neighbour : {blocks_[index(id)].prev, blocks_[index(id)].next}) {
    if (neighbour == kNone || blocks_[index(neighbour)].mapped) continue;
    remove_unmapped(pool, neighbour);
    merge(id, neighbour);
  }
  add_unmapped(pool, id);
}

void CachingAllocator::release_segment(Pool& pool, std::set<Key>::iterator at) {
  const BlockId id = at->block;
  driver_.release(blocks_[index(id)].address, blocks_[index(id)].size);
  ++stats_.driver_calls;
  stats_.reserved -= blocks_[index(id)].size;
  pool.free.erase(at);
  drop_block(id);
}

// Section 7: the first that is large enough alone, else from the largest down until their sum is. What was
// given back stays so when the sum is too small.
bool CachingAllocator::release_oversize(Pool& pool, std::int64_t rounded) {
  if (settings_.max_split_size == std::numeric_limits<std::int64_t>::max()) return false;
  const auto releasable = [this](const Key& key) {
    const Block& block = blocks_[index(key.block)];
    return !block.expandable && block.prev == kNone && block.next == kNone;
  };
  const std::int64_t wanted = std::max(rounded, settings_.max_split_size);
  auto at = pool.free.lower_bound({wanted, 0, kNone});
  if (at != pool.free.end() && releasable(*at)) {
    release_segment(pool, at);
    return true;
  }
  std::int64_t sum = 0;
  while (sum < wanted && at != pool.free.begin()) {
    const auto below = std::prev(at);
    if (below->size < settings_.max_split_size) break;
    if (releasable(*below)) {
      sum += below->size;
      release_segment(pool, below);
    } else {
      at = below;
    }
  }
  return sum >= wanted;
}

void CachingAllocator::release_cached() {
  for (Pool* pool : {&large_, &small_}) {
    std::vector<BlockId> expandable;
    for (auto it = pool->free.begin(); it != pool->free.end();) {
      const BlockId id = it->block;
      const Block& block = blocks_[index(id)];
      if (block.expandable) {
        expandable.push_back(id);
        ++it;
      } else if (block.prev == kNone && block.next == kNone) {
        release_segment(*pool, it++);
      } else {
        ++it;
      }
    }
    for (const BlockId id : expandable) unmap(*pool, id);
  }
}

std::int64_t CachingAllocator::largest_free() const {
  std::int64_t largest = 0;
  for (const Pool* pool : {&small_, &large_})
    if (!pool->free.empty()) largest = std::max(largest, pool->free.rbegin()->size);
  return largest;
}

}  // namespace plimsoll::allocator
