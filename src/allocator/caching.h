// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator as a pure policy over a driver (facts pytorch-allocator.md 3-7): rounding,
// small and large pools, best fit, splitting, merging, expandable segments, release and retry. One
// stream. No globals, no clock.
//
// segment  memory from one driver call (or one expandable range), cut into
// block    a piece that is allocated, or free and cached, or (expandable) not mapped to memory yet.
// reserved = bytes of all segments held from the driver; allocated = bytes of allocated blocks, which
// may exceed what was asked for (a rest of up to 1 MiB in the large pool is not split off).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "allocator/driver.h"
#include "allocator/settings.h"

namespace plimsoll::allocator {

struct Stats {
  std::int64_t allocated = 0;
  std::int64_t requested = 0;
  std::int64_t reserved = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_requested = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t driver_calls = 0;
  std::int64_t retries = 0;
};

class CachingAllocator {
 public:
  using BlockId = std::int32_t;

  CachingAllocator(const Settings& settings, Driver& driver);

  // The block that serves the request, or nothing when memory runs out.
  [[nodiscard]] std::optional<BlockId> allocate(std::int64_t requested);
  void free(BlockId block);
  // Returns every unsplit cached segment to the driver: empty_cache().
  void release_cached();

  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] std::int64_t block_size(BlockId block) const { return blocks_[index(block)].size; }
  // Largest cached block that could serve a request without the driver.
  [[nodiscard]] std::int64_t largest_free() const;
  void reset_peaks() {
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_requested = stats_.requested;
    stats_.peak_reserved = stats_.reserved;
  }

 private:
  static constexpr BlockId kNone = -1;
  struct Block {
    Address address = 0;
    std::int64_t size = 0;
    std::int64_t requested = 0;
    BlockId prev = kNone;
    BlockId next = kNone;
    bool allocated = false;
    bool mapped = true;
    bool expandable = false;
    bool small = false;
  };
  struct Key {
    std::int64_t size;
    Address address;
    BlockId block;
    bool operator<(const Key& other) const { return size != other.size ? size < other.size : address < other.address; }
  };
  struct Pool {
    bool small;
    std::set<Key> free;
    std::vector<BlockId> unmapped;  // sorted by address
  };

  static std::size_t index(BlockId block) { return static_cast<std::size_t>(block); }
  Pool& pool_of(std::int64_t rounded) { return rounded <= kSmallSize ? small_ : large_; }
  Pool& pool_of(const Block& block) { return block.small ? small_ : large_; }
  BlockId new_block();
  void drop_block(BlockId block);
  void insert_free(BlockId block);
  void erase_free(BlockId block);

  BlockId find_free(Pool& pool, std::int64_t rounded);
  BlockId new_segment(Pool& pool, std::int64_t rounded);
  BlockId grow_expandable(Pool& pool, std::int64_t rounded);
  bool map_front(Pool& pool, BlockId unmapped, std::int64_t bytes, BlockId& mapped);
  void unmap(Pool& pool, BlockId block);
  // Gives back cached blocks of max_split_size and more that would make room for the request; whether they do.
  bool release_oversize(Pool& pool, std::int64_t rounded);
  void release_segment(Pool& pool, std::set<Key>::iterator at);
  void split(BlockId block, std::int64_t rounded);
  bool merge(BlockId block, BlockId neighbour);
  void add_unmapped(Pool& pool, BlockId block);
  void remove_unmapped(Pool& pool, BlockId block);
  [[nodiscard]] bool over_limit(std::int64_t more) const;

  Settings settings_;
  Driver& driver_;
  std::vector<Block> blocks_;
  std::vector<BlockId> spare_;
  Pool small_{true, {}, {}};
  Pool large_{false, {}, {}};
  Stats stats_;
};

}  // namespace plimsoll::allocator
