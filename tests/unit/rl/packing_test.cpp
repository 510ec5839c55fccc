// SPDX-License-Identifier: Apache-2.0
#include "rl/packing.h"

#include <algorithm>
#include <functional>

#include "rl/support.h"

namespace plimsoll::rl {
namespace {

constexpr Packing kBins{.seq_len = 4096, .pad_to_multiple_of = 64, .enabled = true};

// First-fit-decreasing as it is written down: every bin is looked at.
std::int64_t plain_bins(std::vector<std::int64_t> lengths, std::int64_t capacity) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>{});
  std::vector<std::int64_t> used;
  for (const std::int64_t length : lengths) {
    auto bin = std::find_if(used.begin(), used.end(), [&](std::int64_t u) { return u + length <= capacity; });
    if (bin == used.end()) bin = used.insert(used.end(), 0);
    *bin += length;
  }
  return static_cast<std::int64_t>(used.size());
}

TEST(Packing, the_tree_finds_the_bins_of_the_plain_search) {
  Random random(11);
  const Distribution lengths(lognormal(900, 0.9, 4096));
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> drawn;
    for (int i = 0; i < 20 * (round + 1); ++i) drawn.push_back(lengths.sample(random));
    EXPECT_EQ(pack(drawn, kBins, 1, 1).bins, plain_bins(drawn, 4096));
  }
}

TEST(Packing, long_samples_are_cut_and_counted) {
  const Packed packed = pack({5000, 4096, 100}, kBins, 64, 1);
  EXPECT_EQ(packed.truncated, 1);
  EXPECT_EQ(packed.lost_tokens, 904);
  EXPECT_EQ(packed.bins, 3);
  EXPECT_EQ(packed.tokens, 4096 + 4096 + 100);
  EXPECT_EQ(packed.padded_tokens, 4096 + 4096 + 128);
}

TEST(Packing, every_rank_gets_as_many_bins) {
  const Packed packed = pack(std::vector<std::int64_t>(9, 4000), kBins, 1, 4);
  EXPECT_EQ(packed.bins, 9);
  EXPECT_EQ(packed.per_rank, 3);
  EXPECT_EQ(packed.dealt, 12);
  EXPECT_NEAR(packed.efficiency(4), 9.0 / 12, 1e-9);
}

TEST(Packing, without_packing_every_sample_costs_a_whole_sequence) {
  Packing alone = kBins;
  alone.enabled = false;
  const Packed packed = pack({100, 200, 300}, alone, 1, 1);
  EXPECT_EQ(packed.bins, 3);
  EXPECT_EQ(packed.padded_tokens, 3 * 4096);
}

// facts rl-and-inference.md 2: 0.9 to 0.98 below a third of the bin, towards a half above half of it.
TEST(Packing, short_samples_fill_bins_and_long_ones_do_not) {
  Random random(2);
  const auto share = [&](double mean, double cv) {
    const Distribution lengths(lognormal(mean, cv, 4096));
    std::vector<std::int64_t> drawn;
    for (int i = 0; i < 1000; ++i) drawn.push_back(lengths.sample(random));
    const Packed packed = pack(drawn, kBins, 1, 1);
    return packed.tokens / static_cast<double>(packed.bins * 4096);
  };
  EXPECT_GT(share(1000, 0.5), 0.97);
  EXPECT_LT(share(2600, 0.05), 0.7);
}

}  // namespace
}  // namespace plimsoll::rl
