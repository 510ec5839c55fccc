// SPDX-License-Identifier: Apache-2.0
// The set of free blocks against an ordered set of the standard library, over random changes.
#include "allocator/free_set.h"

#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace plimsoll::allocator {
namespace {

class Pair {
 public:
  void insert(std::int64_t size, Address address) {
    const auto id = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back();
    blocks_.back().size = size;
    blocks_.back().address = address;
    ours_.insert(blocks_, id);
    theirs_.emplace(size, address, id);
  }
  void erase(std::size_t number) {
    auto at = theirs_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(number % theirs_.size()));
    ours_.erase(blocks_, std::get<2>(*at));
    theirs_.erase(at);
  }
  void expect_same_order() const {
    BlockId id = ours_.first(blocks_);
    for (const auto& [size, address, expected] : theirs_) {
      ASSERT_EQ(id, expected);
      id = ours_.after(blocks_, id);
    }
    EXPECT_EQ(id, kNoBlock);
    EXPECT_EQ(ours_.last(blocks_), theirs_.empty() ? kNoBlock : std::get<2>(*theirs_.rbegin()));
    EXPECT_EQ(ours_.empty(), theirs_.empty());
  }
  void expect_same_search(std::int64_t size, Address address) const {
    const auto at = theirs_.lower_bound({size, address, 0});
    EXPECT_EQ(ours_.lower_bound(blocks_, {size, address}), at == theirs_.end() ? kNoBlock : std::get<2>(*at));
    EXPECT_EQ(ours_.below(blocks_, {size, address}), at == theirs_.begin() ? kNoBlock : std::get<2>(*std::prev(at)));
    const auto fit = theirs_.lower_bound({size, 0, 0});
    EXPECT_EQ(ours_.best_fit(blocks_, size), fit == theirs_.end() ? kNoBlock : std::get<2>(*fit));
  }
  [[nodiscard]] bool empty() const { return theirs_.empty(); }

 private:
  Blocks blocks_;
  FreeSet ours_;
  std::set<std::tuple<std::int64_t, Address, BlockId>> theirs_;
};

void try_sizes(std::int64_t unit, std::int64_t different, unsigned seed) {
  std::mt19937_64 random(seed);
  Pair pair;
  Address next = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto size = unit * (1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(different)));
    const bool grows = random() % 5 < (i < 1000 ? 4U : 1U);
    if (grows || pair.empty()) {
      pair.insert(size, (random() % 4096) * 1'000'000 + next++);
    } else {
      pair.erase(random());
    }
    pair.expect_same_search(size, (random() % 4096) * 1'000'000);
    if (i % 50 == 0) pair.expect_same_order();
  }
  pair.expect_same_order();
}

TEST(FreeSet, HasTheOrderOfAnOrderedSet) {
  try_sizes(512, 1, 1);        // one size, many addresses
  try_sizes(512, 40, 2);       // around the first bins, which have one size each
  try_sizes(512, 100'000, 3);  // a bin for many sizes
  try_sizes(1, 5'000'000, 4);  // sizes that are no multiple of a block
  try_sizes(std::int64_t{1} << 40, 1 << 20, 5);
}

}  // namespace
}  // namespace plimsoll::allocator
