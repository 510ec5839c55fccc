// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/alignment.h"

namespace plimsoll {
namespace {

using Sequence = std::vector<std::int64_t>;
using testing::ElementsAre;
using testing::IsEmpty;

Sequence without(const Sequence& all, const std::vector<std::size_t>& left_out) {
  Sequence rest;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!std::ranges::binary_search(left_out, i)) rest.push_back(all[i]);
  return rest;
}

TEST(Alignment, names_what_one_sequence_lacks) {
  const Alignment found = align(Sequence{1, 2, 3, 4, 5}, Sequence{1, 3, 4, 9, 5});
  EXPECT_THAT(found.only_a, ElementsAre(1));
  EXPECT_THAT(found.only_b, ElementsAre(3));
}

TEST(Alignment, equal_and_empty_sequences) {
  EXPECT_THAT(align(Sequence{7, 7}, Sequence{7, 7}).only_a, IsEmpty());
  EXPECT_THAT(align(Sequence{}, Sequence{1, 2}).only_b, ElementsAre(0, 1));
  EXPECT_THAT(align(Sequence{1}, Sequence{}).only_a, ElementsAre(0));
  EXPECT_THAT(align(Sequence{}, Sequence{}).only_b, IsEmpty());
}

// The table that any textbook has.
std::size_t longest_common(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      table[i + 1][j + 1] = a[i] == b[j] ? table[i][j] + 1 : std::max(table[i][j + 1], table[i + 1][j]);
  return table[a.size()][b.size()];
}

TEST(Alignment, what_is_left_is_the_longest_common_subsequence) {
  std::mt19937 random(14);
  for (int round = 0; round < 500; ++round) {
    const auto draw = [&random] {
      Sequence all(random() % 20);
      for (std::int64_t& each : all) each = static_cast<std::int64_t>(random() % 4);
      return all;
    };
    const Sequence a = draw();
    const Sequence b = draw();
    const Alignment found = align(a, b);
    EXPECT_EQ(without(a, found.only_a), without(b, found.only_b));
    EXPECT_EQ(a.size() - found.only_a.size(), longest_common(a, b));
  }
}

TEST(Alignment, sequences_that_differ_too_much_are_aligned_at_their_ends) {
  const Sequence a = {1, 10, 11, 12, 2};
  const Sequence b = {1, 20, 11, 22, 2};
  const Alignment found = align(a, b, 3);
  EXPECT_THAT(found.only_a, ElementsAre(1, 2, 3));
  EXPECT_THAT(found.only_b, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace plimsoll
