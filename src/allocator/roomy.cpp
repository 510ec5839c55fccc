// SPDX-License-Identifier: Apache-2.0
#include "allocator/roomy.h"

#include <algorithm>

#include "allocator/segment_size.h"
#include "base/checked.h"

namespace plimsoll::allocator {

bool RoomyAllocator::covers(const Settings& settings) {
  const bool rounds_to_units = std::all_of(settings.divisions.begin(), settings.divisions.end(),
                                           [](std::int64_t divisions) { return divisions <= 1; });
  return rounds_to_units && settings.max_split_size == kUnlimited && !settings.fraction;
}

RoomyAllocator::RoomyAllocator(const Settings& settings, const SimulatedDriver& driver, std::uint32_t streams)
    : driver_(driver),
      expandable_(settings.expandable_segments),
      large_segment_(settings.large_segment),
      pools_(std::size_t{streams} * 2) {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    pools_[i].number = static_cast<std::uint8_t>(i);
    pools_[i].small = i % 2 == 0;
    pools_[i].granule = pools_[i].small ? kSmallSegment : large_segment_;
  }
}

RoomyAllocator::Block* RoomyAllocator::new_block() {
  Block& block = blocks_.emplace_back();
  block.priority = static_cast<std::uint32_t>(blocks_.size()) * 0x9E3779B1U;  // without a pattern
  return &block;
}

// The end of a range that can still grow is used last (facts pytorch-allocator.md 4): the next larger free block serves
// the request where it reaches less far.
RoomyAllocator::Block* RoomyAllocator::instead_of_last(const Pool& pool, Block* last) {
  if (pool.mapped == pool.range) return last;
  Block* const other = after(pool, last);
  return other != nullptr && other->size < last->size + (pool.range - pool.mapped) ? other : last;
}

// A block of this size that is in no bin, from the driver.
RoomyAllocator::Block* RoomyAllocator::grow(Pool& pool, std::int64_t size) {
  if (pool.roots.empty()) pool.roots.assign(kBins, nullptr);
  Block* const block = expandable_ ? map_more(pool, size) : new_segment(pool, size);
  if (block == nullptr) return nullptr;
  ++driver_calls_;
  const std::int64_t rest = block->size - size;
  if (!splits(pool, rest)) return block;
  Block* const behind = spare_block();
  behind->address = block->address + static_cast<Address>(size);
  behind->size = rest;
  behind->prev = block;
  behind->next = block->next;
  behind->pool = pool.number;
  behind->is_free = true;
  if (behind->next != nullptr) behind->next->prev = behind;
  block->next = behind;
  block->size = size;
  if (pool.last == block) pool.last = behind;
  insert(pool, behind, bin_of(rest));
  return block;
}

RoomyAllocator::Block* RoomyAllocator::new_segment(Pool& pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size, large_segment_);
  const std::optional<Address> address = driver_.allocate(bytes);
  if (!address) return nullptr;
  reserved_ += bytes;
  Block* const block = spare_block();
  block->address = *address;
  block->size = bytes;
  block->prev = block->next = nullptr;
  block->pool = pool.number;
  block->is_free = false;
  return block;
}

// Maps whole granules behind the last block; they join it where it is free. A range that is too short for the request
// would be followed by another one: that is left to CachingAllocator.
RoomyAllocator::Block* RoomyAllocator::map_more(Pool& pool, std::int64_t size) {
  if (pool.range == 0) {
    pool.range = round_up(driver_.total() + driver_.total() / 8, pool.granule);
    pool.begin = driver_.reserve_range(pool.range);
  }
  const bool joins = pool.last != nullptr && pool.last->is_free;
  const std::int64_t missing = size - (joins ? pool.last->size : 0);
  if (missing > pool.range - pool.mapped) return nullptr;
  const std::int64_t bytes = std::min(round_up(missing, pool.granule), pool.range - pool.mapped);
  if (!driver_.map(pool.begin + static_cast<Address>(pool.mapped), bytes)) return nullptr;
  Block* block = pool.last;
  if (joins) {
    erase(pool, block);
    block->size += bytes;
  } else {
    block = spare_block();
    block->address = pool.begin + static_cast<Address>(pool.mapped);
    block->size = bytes;
    block->prev = pool.last;
    block->next = nullptr;
    block->pool = pool.number;
    if (block->prev != nullptr) block->prev->next = block;
    pool.last = block;
  }
  block->is_free = false;
  pool.mapped += bytes;
  reserved_ += bytes;
  return block;
}

bool RoomyAllocator::release_cached() {
  if (expandable_) return false;
  reserved_before_release_ = std::max(reserved_before_release_, reserved_);
  for (Pool& pool : pools_) {
    for (Block* block = first_from(pool, 0); block != nullptr;) {
      Block* const next = after(pool, block);
      if (block->prev == nullptr && block->next == nullptr) {
        driver_.release(block->address, block->size);
        reserved_ -= block->size;
        ++driver_calls_;
        erase(pool, block);
        spare_.push_back(block);
      }
      block = next;
    }
  }
  return true;
}

RoomyAllocator::Block* RoomyAllocator::after(const Pool& pool, const Block* block) {
  Block* found = nullptr;
  for (Block* b = pool.roots[block->bin]; b != nullptr;) {
    const bool is_after = !is_below(*b, block->size, block->address + 1);
    found = is_after ? b : found;
    b = is_after ? b->smaller : b->larger;
  }
  return found != nullptr ? found : first_from(pool, block->bin + 1U);
}

// Down to where the new block's priority is the highest, which then takes the subtree's two halves.
void RoomyAllocator::insert_among(Pool& pool, Block* block) {
  Block** link = &pool.roots[block->bin];
  while (*link != nullptr && (*link)->priority > block->priority)
    link = is_below(**link, block->size, block->address) ? &(*link)->larger : &(*link)->smaller;
  Block* rest = *link;
  *link = block;
  Block** smaller = &block->smaller;
  Block** larger = &block->larger;
  while (rest != nullptr) {
    if (is_below(*rest, block->size, block->address)) {
      *smaller = rest;
      smaller = &rest->larger;
      rest = rest->larger;
    } else {
      *larger = rest;
      larger = &rest->smaller;
      rest = rest->smaller;
    }
  }
  *smaller = *larger = nullptr;
}

// The two subtrees below it become one.
void RoomyAllocator::erase_among(Pool& pool, Block* block) {
  Block** link = &pool.roots[block->bin];
  while (*link != block) link = is_below(**link, block->size, block->address) ? &(*link)->larger : &(*link)->smaller;
  Block* smaller = block->smaller;
  Block* larger = block->larger;
  while (smaller != nullptr && larger != nullptr) {
    Block*& top = smaller->priority > larger->priority ? smaller : larger;
    *link = top;
    link = &top == &smaller ? &top->larger : &top->smaller;
    top = *link;
  }
  *link = smaller != nullptr ? smaller : larger;
}

}  // namespace plimsoll::allocator
