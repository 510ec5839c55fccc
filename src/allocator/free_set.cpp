// SPDX-License-Identifier: Apache-2.0
#include "allocator/free_set.h"

#include <bit>

namespace plimsoll::allocator {

namespace {

Block& at(Blocks& blocks, BlockId id) { return blocks[static_cast<std::size_t>(id)]; }
const Block& at(const Blocks& blocks, BlockId id) { return blocks[static_cast<std::size_t>(id)]; }

// The treap's heap order: numbers without a pattern in the order of ids.
std::uint32_t priority(BlockId id) { return static_cast<std::uint32_t>(id) * 0x9E3779B1U; }

bool is_below(const Block& a, const SizeThenAddress& key) { return SizeThenAddress(a) < key; }

}  // namespace

// The last bin with blocks before this one; kBins where there is none.
std::uint32_t FreeSet::last_filled(std::uint32_t before) const {
  while (before > 0)
    if (is_filled(--before)) return before;
  return kBins;
}

BlockId FreeSet::last_before(const Blocks& blocks, std::uint32_t bin) const {
  bin = last_filled(bin);
  if (bin == kBins) return kNoBlock;
  BlockId block = roots_[bin];
  while (at(blocks, block).larger != kNoBlock) block = at(blocks, block).larger;
  return block;
}

BlockId FreeSet::first(const Blocks& blocks) const { return first_from(blocks, 0); }
BlockId FreeSet::last(const Blocks& blocks) const { return last_before(blocks, kBins); }

BlockId FreeSet::lower_bound(const Blocks& blocks, SizeThenAddress key) const {
  const std::uint32_t bin = bin_of(key.size);
  if (is_filled(bin)) {
    BlockId found = kNoBlock;
    for (BlockId block = roots_[bin]; block != kNoBlock;) {
      const Block& b = at(blocks, block);
      if (is_below(b, key)) {
        block = b.larger;
      } else {
        found = block;
        block = b.smaller;
      }
    }
    if (found != kNoBlock) return found;
  }
  return first_from(blocks, bin + 1);
}

BlockId FreeSet::below(const Blocks& blocks, SizeThenAddress key) const {
  const std::uint32_t bin = bin_of(key.size);
  BlockId found = kNoBlock;
  for (BlockId block = is_filled(bin) ? roots_[bin] : kNoBlock; block != kNoBlock;) {
    const Block& b = at(blocks, block);
    if (is_below(b, key)) found = block;
    block = is_below(b, key) ? b.larger : b.smaller;
  }
  return found != kNoBlock ? found : last_before(blocks, bin);
}

BlockId FreeSet::after(const Blocks& blocks, BlockId block) const {
  const Block& b = at(blocks, block);
  if (roots_[b.bin] == block && b.larger == kNoBlock) return first_from(blocks, b.bin + 1U);
  return lower_bound(blocks, {b.size, b.address + 1});
}

// Down to where the new block's priority is the highest, which then takes the subtree's two halves.
void FreeSet::insert_among(Blocks& blocks, BlockId id, std::uint32_t bin) {
  Block& added = at(blocks, id);
  BlockId* link = &roots_[bin];
  const SizeThenAddress key(added);
  while (*link != kNoBlock && priority(*link) > priority(id)) {
    Block& b = at(blocks, *link);
    link = is_below(b, key) ? &b.larger : &b.smaller;
  }
  BlockId rest = *link;
  *link = id;
  BlockId* smaller = &added.smaller;
  BlockId* larger = &added.larger;
  while (rest != kNoBlock) {
    Block& b = at(blocks, rest);
    if (is_below(b, key)) {
      *smaller = rest;
      smaller = &b.larger;
      rest = b.larger;
    } else {
      *larger = rest;
      larger = &b.smaller;
      rest = b.smaller;
    }
  }
  *smaller = *larger = kNoBlock;
}

// The two subtrees below it become one.
void FreeSet::erase_among(Blocks& blocks, BlockId id, std::uint32_t bin) {
  const Block& erased = at(blocks, id);
  BlockId* link = &roots_[bin];
  const SizeThenAddress key(erased);
  while (*link != id) {
    Block& b = at(blocks, *link);
    link = is_below(b, key) ? &b.larger : &b.smaller;
  }
  BlockId smaller = erased.smaller;
  BlockId larger = erased.larger;
  while (smaller != kNoBlock && larger != kNoBlock) {
    const bool smaller_on_top = priority(smaller) > priority(larger);
    BlockId& top = smaller_on_top ? smaller : larger;
    *link = top;
    link = smaller_on_top ? &at(blocks, top).larger : &at(blocks, top).smaller;
    top = *link;
  }
  *link = smaller != kNoBlock ? smaller : larger;
}

}  // namespace plimsoll::allocator
