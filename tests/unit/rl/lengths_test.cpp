// SPDX-License-Identifier: Apache-2.0
#include "rl/lengths.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rl/support.h"

namespace plimsoll::rl {
namespace {

TEST(Lengths, a_constant_has_no_spread) {
  const Distribution lengths(constant(1500));
  EXPECT_EQ(lengths.mean(), 1500);
  EXPECT_EQ(lengths.deviation(), 0);
  EXPECT_EQ(lengths.quantile(0.01), 1500);
  EXPECT_EQ(lengths.expected_maximum(1000), 1500);
  Random random(1);
  EXPECT_EQ(lengths.sample(random), 1500);
}

TEST(Lengths, the_mean_is_that_after_the_cut) {
  for (const double cv : {0.3, 0.8, 2.0}) {
    const Distribution lengths(lognormal(3000, cv, 4096));
    EXPECT_NEAR(lengths.mean(), 3000, 1e-6);
    Random random(7);
    double sum = 0;
    double squares = 0;
    constexpr int kDrawn = 200'000;
    for (int i = 0; i < kDrawn; ++i) {
      const auto length = static_cast<double>(lengths.sample(random));
      ASSERT_GE(length, 1);
      ASSERT_LE(length, 4096);
      sum += length;
      squares += length * length;
    }
    EXPECT_NEAR(sum / kDrawn, 3000, 15) << cv;
    EXPECT_NEAR(squares / kDrawn / lengths.mean_square(), 1, 0.01) << cv;
  }
}

TEST(Lengths, quantiles_and_shares_are_inverses) {
  const Distribution lengths(lognormal(1000, 1, 8000));
  for (const double q : {0.01, 0.3, 0.5, 0.9, 0.98}) EXPECT_NEAR(lengths.cumulative(lengths.quantile(q)), q, 1e-6);
  EXPECT_EQ(lengths.quantile(1), 8000);
  EXPECT_EQ(lengths.cumulative(8000), 1);
}

// facts rl-and-inference.md 7, simulated max / mean of a lognormal.
TEST(Lengths, the_longest_of_many_is_as_long_as_simulation_finds) {
  const auto ratio = [](double cv, double n) {
    return Distribution(lognormal(1000, cv, 10'000'000)).expected_maximum(n) / 1000;
  };
  EXPECT_NEAR(ratio(0.5, 16), 2.1, 0.06);
  EXPECT_NEAR(ratio(0.5, 128), 3.1, 0.06);
  EXPECT_NEAR(ratio(0.5, 512), 3.8, 0.08);
  EXPECT_NEAR(ratio(1, 16), 3.5, 0.1);
  EXPECT_NEAR(ratio(1, 128), 6.6, 0.15);
  EXPECT_NEAR(ratio(1, 512), 9.4, 0.25);
}

TEST(Lengths, a_histogram_is_drawn_in_its_proportions) {
  Lengths lengths;
  lengths.counts = {{100, 1}, {200, 2}, {1000, 1}};
  lengths.maximum = 1000;
  const Distribution drawn(lengths);
  EXPECT_DOUBLE_EQ(drawn.mean(), 375);
  EXPECT_DOUBLE_EQ(drawn.quantile(0.5), 200);
  Random random(3);
  int hundreds = 0;
  int thousands = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::int64_t length = drawn.sample(random);
    hundreds += length == 100;
    thousands += length == 1000;
  }
  EXPECT_NEAR(hundreds, 10'000, 400);
  EXPECT_NEAR(thousands, 10'000, 400);
}

TEST(Lengths, the_same_seed_draws_the_same) {
  const Distribution lengths(lognormal(1000, 0.8, 4000));
  Random a(5);
  Random b(5);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(lengths.sample(a), lengths.sample(b));
}

}  // namespace
}  // namespace plimsoll::rl
