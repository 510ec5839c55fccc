// SPDX-License-Identifier: Apache-2.0
// The free blocks of one pool and stream in order of size, then address: what best fit searches. They lie in bins by
// size, sixteen to each doubling: a training step has some hundred free blocks of some dozen sizes at a time, so a
// search ends in a bin of one or two. A bin is a treap over the blocks' own links, so that nothing is allocated and a
// recording with a million free blocks of one size is served in logarithmic time, too.
// Invariant: a bit is set for each bin that has blocks; a block in the set changes neither size nor address, unless it
// keeps its place.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "allocator/block.h"

namespace plimsoll::allocator {

class FreeSet {
 public:
  [[nodiscard]] bool empty() const { return filled_words_ == 0; }
  void insert(Blocks& blocks, BlockId block) {
    Block& added = blocks[static_cast<std::size_t>(block)];
    const std::uint32_t bin = bin_of(added.size);
    added.bin = static_cast<std::uint16_t>(bin);
    if (is_filled(bin)) return insert_among(blocks, block, bin);
    if (roots_.empty()) roots_.assign(kBins, kNoBlock);
    added.smaller = added.larger = kNoBlock;
    roots_[bin] = block;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    filled_words_ |= 1U << (bin / 64);
  }
  void erase(Blocks& blocks, BlockId block) {
    const Block& erased = blocks[static_cast<std::size_t>(block)];
    const std::uint32_t bin = erased.bin;
    if (roots_[bin] != block || erased.smaller != kNoBlock || erased.larger != kNoBlock)
      return erase_among(blocks, block, bin);
    roots_[bin] = kNoBlock;
    filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    filled_words_ &= ~(static_cast<std::uint32_t>(filled_[bin / 64] == 0) << (bin / 64));
  }
  // Whether a block of the set keeps its place with this size, so that size and address may change where it stands: it
  // is alone in its bin, and the bin stays the same.
  [[nodiscard]] bool keeps_place(const Blocks& blocks, BlockId block, std::int64_t size) const {
    const Block& b = blocks[static_cast<std::size_t>(block)];
    return b.smaller == kNoBlock && b.larger == kNoBlock && roots_[b.bin] == block && bin_of(size) == b.bin;
  }
  // Each gives kNoBlock where there is no such block.
  // The smallest of at least this size, at the lowest address.
  [[nodiscard]] BlockId best_fit(const Blocks& blocks, std::int64_t size) const {
    const std::uint32_t bin = bin_of(size);
    if (is_filled(bin)) {
      BlockId found = kNoBlock;
      for (BlockId block = roots_[bin]; block != kNoBlock;) {
        const Block& b = blocks[static_cast<std::size_t>(block)];
        const bool enough = b.size >= size;
        found = enough ? block : found;
        block = enough ? b.smaller : b.larger;
      }
      if (found != kNoBlock) return found;
    }
    return first_from(blocks, bin + 1);
  }
  [[nodiscard]] BlockId first(const Blocks& blocks) const;
  [[nodiscard]] BlockId last(const Blocks& blocks) const;
  // The first of at least this size and address, and the last below.
  [[nodiscard]] BlockId lower_bound(const Blocks& blocks, SizeThenAddress key) const;
  [[nodiscard]] BlockId below(const Blocks& blocks, SizeThenAddress key) const;
  [[nodiscard]] BlockId after(const Blocks& blocks, BlockId block) const;

 private:
  static constexpr std::uint32_t kBins = 832;  // those of sizes up to 2^63, in whole words
  static constexpr std::uint32_t kWords = kBins / 64;

  // Sizes below 16 units of 512 bytes have a bin each; above, the four bits after the highest choose it.
  [[nodiscard]] static std::uint32_t bin_of(std::int64_t size) {
    const auto units = static_cast<std::uint64_t>(size) >> 9;
    if (units < 16) return static_cast<std::uint32_t>(units);
    const auto doubling = static_cast<std::uint32_t>(std::bit_width(units)) - 5;
    return doubling * 16 + static_cast<std::uint32_t>(units >> doubling);
  }
  void insert_among(Blocks& blocks, BlockId block, std::uint32_t bin);
  void erase_among(Blocks& blocks, BlockId block, std::uint32_t bin);
  [[nodiscard]] bool is_filled(std::uint32_t bin) const { return ((filled_[bin / 64] >> (bin % 64)) & 1U) != 0; }
  // The first bin with blocks at or after this one; kBins where there is none.
  [[nodiscard]] std::uint32_t first_filled(std::uint32_t from) const {
    if (from >= kBins) return kBins;
    const std::uint32_t word = from / 64;
    if (const std::uint64_t here = filled_[word] >> (from % 64); here != 0)
      return from + static_cast<std::uint32_t>(std::countr_zero(here));
    const std::uint32_t later = filled_words_ >> word >> 1;
    if (later == 0) return kBins;
    const std::uint32_t other = word + 1 + static_cast<std::uint32_t>(std::countr_zero(later));
    return other * 64 + static_cast<std::uint32_t>(std::countr_zero(filled_[other]));
  }
  [[nodiscard]] std::uint32_t last_filled(std::uint32_t before) const;
  [[nodiscard]] BlockId first_from(const Blocks& blocks, std::uint32_t bin) const {
    bin = first_filled(bin);
    if (bin == kBins) return kNoBlock;
    BlockId block = roots_[bin];
    for (BlockId less = block; less != kNoBlock; less = blocks[static_cast<std::size_t>(block)].smaller) block = less;
    return block;
  }
  [[nodiscard]] BlockId last_before(const Blocks& blocks, std::uint32_t bin) const;

  std::array<std::uint64_t, kWords> filled_{};
  std::uint32_t filled_words_ = 0;  // a bit for each word that is not 0
  std::vector<BlockId> roots_;      // of each bin; none before the first block
};

}  // namespace plimsoll::allocator
