// SPDX-License-Identifier: Apache-2.0
// A block of the caching allocator: a piece of a segment. Blocks lie in one array and name each other by number.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/driver.h"

namespace plimsoll::allocator {

using BlockId = std::int32_t;
inline constexpr BlockId kNoBlock = -1;

// A line of the processor's cache: a walk touches a few blocks per event, and nearly nothing else.
struct alignas(64) Block {
  Address address = 0;
  std::int64_t size = 0;  // 0 marks an entry that is not in use
  std::int64_t requested = 0;
  BlockId prev = kNoBlock;  // neighbours in the segment
  BlockId next = kNoBlock;
  BlockId smaller = kNoBlock;  // links of the set of free blocks that it is in
  BlockId larger = kNoBlock;
  std::uint32_t owner = 0;
  std::uint32_t stream = 0;
  std::uint32_t cache = 0;        // number of its pool: 2 * pool, + 1 for large
  std::int32_t range = kNoBlock;  // number of the range of an expandable block
  std::uint32_t pending_at = 0;   // number in the list of pending frees
  std::uint16_t bin = 0;          // of the set of free blocks that it is in
  bool allocated : 1 = false;
  bool pending : 1 = false;
  bool mapped : 1 = true;

  [[nodiscard]] bool idle() const { return !allocated && !pending; }
  [[nodiscard]] bool expandable() const { return range != kNoBlock; }
  [[nodiscard]] bool whole() const { return prev == kNoBlock && next == kNoBlock; }
  [[nodiscard]] bool small() const { return (cache & 1U) == 0; }
};
static_assert(sizeof(Block) == 64);

// The order of best fit: by size, then by address.
struct SizeThenAddress {
  std::int64_t size;
  Address address;

  explicit SizeThenAddress(const Block& block) : size(block.size), address(block.address) {}
  SizeThenAddress(std::int64_t bytes, Address at) : size(bytes), address(at) {}
  bool operator<(const SizeThenAddress& other) const {
    return size != other.size ? size < other.size : address < other.address;
  }
};

using Blocks = std::vector<Block>;

}  // namespace plimsoll::allocator
