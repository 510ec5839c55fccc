// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator as long as the device has room: rounding, small and large pools per stream, best fit,
// splitting, merging, growth of expandable segments. It has no memory limit, no garbage collection, no release of
// expandable segments and no private pools; where a request would need one of these it gives up, and the caller turns
// to CachingAllocator. A step that fits needs none of them, and most walks are of steps that fit: this one takes a
// third of the time. Invariant: request by request the same bytes as CachingAllocator, until it gives up; a property
// test holds the two together.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <vector>

#include "allocator/driver.h"
#include "allocator/settings.h"

namespace plimsoll::allocator {

class RoomyAllocator {
 public:
  struct Block {
    Address address = 0;
    std::int64_t size = 0;
    Block* prev = nullptr;  // neighbours in the segment
    Block* next = nullptr;
    Block* smaller = nullptr;  // links of the bin that it is in
    Block* larger = nullptr;
    std::uint32_t priority = 0;  // of the bin's treap, for life
    std::uint16_t bin = 0;
    std::uint8_t pool = 0;
    bool is_free = false;
  };

  // Whether nothing in the settings asks for more than this policy has.
  [[nodiscard]] static bool covers(const Settings& settings);

  // Streams are 0 to streams - 1. The driver says how much room there is.
  RoomyAllocator(const Settings& settings, const SimulatedDriver& driver, std::uint32_t streams);
  RoomyAllocator(const RoomyAllocator&) = delete;
  RoomyAllocator& operator=(const RoomyAllocator&) = delete;

  // A block for so many bytes, a multiple of kMinBlock; null where there is no room for it.
  [[nodiscard, gnu::always_inline]] Block* allocate(std::int64_t size, std::uint32_t stream) {
    Pool& pool = pools_[stream * 2 + (size <= kSmallSize ? 0U : 1U)];
    Block* block = best_fit(pool, size);
    if (block != nullptr && block == pool.last) block = instead_of_last(pool, block);
    if (block == nullptr) {
      block = grow(pool, size);
      if (block == nullptr) return nullptr;
    } else if (splits(pool, block->size - size)) {
      block = cut_front(pool, block, size);
    } else {
      erase(pool, block);
      block->is_free = false;
    }
    allocated_ += block->size;
    return block;
  }

  void free(Block* block) {
    Pool& pool = pools_[block->pool];
    allocated_ -= block->size;
    Block* const before = block->prev;
    Block* const after = block->next;
    const bool joins_before = before != nullptr && before->is_free;
    const bool joins_after = after != nullptr && after->is_free;
    if (joins_before) {
      std::int64_t size = before->size + block->size;
      if (joins_after) {
        size += after->size;
        erase(pool, after);
        unlink(pool, after);
      }
      unlink(pool, block);
      return resize(pool, before, before->address, size);
    }
    if (joins_after) {
      const Address address = block->address;
      const std::int64_t size = block->size + after->size;
      unlink(pool, block);
      return resize(pool, after, address, size);
    }
    block->is_free = true;
    insert(pool, block, bin_of(block->size));
  }

  // empty_cache(): segments that nobody uses go back to the driver. False, and nothing was done, where they expand.
  [[nodiscard]] bool release_cached();

  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  // Only release_cached() lets it fall.
  [[nodiscard]] std::int64_t peak_reserved() const { return std::max(reserved_, reserved_before_release_); }
  [[nodiscard]] std::int64_t driver_calls() const { return driver_calls_; }

 private:
  static constexpr std::uint32_t kBins = 832;  // as in FreeSet: sixteen to each doubling
  static constexpr std::uint32_t kWords = kBins / 64;

  // Free blocks of one pool and stream, in bins by size; a bin is a treap in order of size, then address.
  struct Pool {
    std::array<std::uint64_t, kWords> filled{};
    std::uint32_t filled_words = 0;
    std::uint8_t number = 0;
    bool small = false;
    std::int64_t granule = 0;
    Block* last = nullptr;  // before the part of its range that is not mapped; null without expandable segments
    Address begin = 0;      // of the range
    std::int64_t mapped = 0;
    std::int64_t range = 0;  // 0: none yet
    std::vector<Block*> roots;
  };

  [[nodiscard]] static std::uint32_t bin_of(std::int64_t size) {
    const auto units = static_cast<std::uint64_t>(size) >> 9;
    if (units < 16) return static_cast<std::uint32_t>(units);
    const auto doubling = static_cast<std::uint32_t>(std::bit_width(units)) - 5;
    return doubling * 16 + static_cast<std::uint32_t>(units >> doubling);
  }
  [[nodiscard]] static bool is_below(const Block& block, std::int64_t size, Address address) {
    return block.size != size ? block.size < size : block.address < address;
  }
  [[nodiscard]] static bool is_filled(const Pool& pool, std::uint32_t bin) {
    return ((pool.filled[bin / 64] >> (bin % 64)) & 1U) != 0;
  }
  [[nodiscard]] static Block* first_from(const Pool& pool, std::uint32_t bin) {
    if (bin >= kBins) return nullptr;
    const std::uint32_t word = bin / 64;
    if (const std::uint64_t here = pool.filled[word] >> (bin % 64); here != 0) {
      bin += static_cast<std::uint32_t>(std::countr_zero(here));
    } else {
      const std::uint32_t later = pool.filled_words >> word >> 1;
      if (later == 0) return nullptr;
      const std::uint32_t other = word + 1 + static_cast<std::uint32_t>(std::countr_zero(later));
      bin = other * 64 + static_cast<std::uint32_t>(std::countr_zero(pool.filled[other]));
    }
    Block* block = pool.roots[bin];
    while (block->smaller != nullptr) block = block->smaller;
    return block;
  }
  [[nodiscard]] static Block* best_fit(const Pool& pool, std::int64_t size) {
    const std::uint32_t bin = bin_of(size);
    if (is_filled(pool, bin)) {
      Block* found = nullptr;
      for (Block* block = pool.roots[bin]; block != nullptr;) {
        const bool enough = block->size >= size;
        found = enough ? block : found;
        block = enough ? block->smaller : block->larger;
      }
      if (found != nullptr) return found;
    }
    return first_from(pool, bin + 1);
  }
  static void insert(Pool& pool, Block* block, std::uint32_t bin) {
    block->bin = static_cast<std::uint16_t>(bin);
    if (is_filled(pool, bin)) return insert_among(pool, block);
    block->smaller = block->larger = nullptr;
    pool.roots[bin] = block;
    pool.filled[bin / 64] |= std::uint64_t{1} << (bin % 64);
    pool.filled_words |= 1U << (bin / 64);
  }
  static void erase(Pool& pool, Block* block) {
    const std::uint32_t bin = block->bin;
    if (block->smaller != nullptr || block->larger != nullptr || pool.roots[bin] != block)
      return erase_among(pool, block);
    pool.roots[bin] = nullptr;
    const std::uint64_t left = pool.filled[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    if (left == 0) pool.filled_words &= ~(1U << (bin / 64));
  }
  // A free block gets another size and address; one that is alone in its bin and stays there keeps its place.
  static void resize(Pool& pool, Block* block, Address address, std::int64_t size) {
    const std::uint32_t bin = bin_of(size);
    const bool stays =
        bin == block->bin && block->smaller == nullptr && block->larger == nullptr && pool.roots[bin] == block;
    if (!stays) erase(pool, block);
    block->address = address;
    block->size = size;
    if (!stays) insert(pool, block, bin);
  }
  [[nodiscard]] bool splits(const Pool& pool, std::int64_t rest) const {
    return pool.small || expandable_ ? rest >= kMinBlock : rest > kSmallSize;
  }
  Block* spare_block() {
    if (spare_.empty()) return new_block();
    Block* const block = spare_.back();
    spare_.pop_back();
    return block;
  }
  // The front of a free block as an allocated one; the rest stays free.
  Block* cut_front(Pool& pool, Block* rest, std::int64_t size) {
    Block* const front = spare_block();
    front->address = rest->address;
    front->size = size;
    front->prev = rest->prev;
    front->next = rest;
    front->pool = pool.number;
    front->is_free = false;
    if (front->prev != nullptr) front->prev->next = front;
    rest->prev = front;
    resize(pool, rest, rest->address + static_cast<Address>(size), rest->size - size);
    return front;
  }
  // Out of its segment, where a neighbour takes its place, and of use again.
  void unlink(Pool& pool, Block* block) {
    if (block->prev != nullptr) block->prev->next = block->next;
    if (block->next != nullptr) block->next->prev = block->prev;
    if (pool.last == block) pool.last = block->prev;
    spare_.push_back(block);
  }

  static void insert_among(Pool& pool, Block* block);
  static void erase_among(Pool& pool, Block* block);
  [[nodiscard]] static Block* after(const Pool& pool, const Block* block);
  [[nodiscard]] static Block* instead_of_last(const Pool& pool, Block* last);
  Block* new_block();
  Block* grow(Pool& pool, std::int64_t size);
  Block* new_segment(Pool& pool, std::int64_t size);
  Block* map_more(Pool& pool, std::int64_t size);

  SimulatedDriver driver_;
  bool expandable_;
  std::int64_t large_segment_;
  std::vector<Pool> pools_;   // small and large of each stream
  std::deque<Block> blocks_;  // they stay where they are
  std::vector<Block*> spare_;
  std::int64_t allocated_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t reserved_before_release_ = 0;
  std::int64_t driver_calls_ = 0;
};

}  // namespace plimsoll::allocator
