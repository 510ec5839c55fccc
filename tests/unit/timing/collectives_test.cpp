// SPDX-License-Identifier: Apache-2.0
#include "timing/collectives.h"

#include <gtest/gtest.h>

#include "timing/support.h"

namespace plimsoll::timing {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

class Collectives : public ::testing::Test {
 protected:
  Machine h100{test::cluster_of("h100-sxm-80gb", 64), built_in()};
  Machine gb200{test::cluster_of("gb200-186gb", 256), built_in()};
};

TEST_F(Collectives, rank_order_decides_who_shares_a_domain) {
  EXPECT_FALSE(span_of(h100, 8, 1).crosses());
  EXPECT_TRUE(span_of(h100, 16, 1).crosses());
  EXPECT_EQ(span_of(h100, 8, 4).inside, 2);
  EXPECT_EQ(span_of(h100, 8, 8).inside, 1);
  EXPECT_FALSE(span_of(gb200, 64, 1).crosses()) << "a rack of NVLink holds them";
  EXPECT_TRUE(span_of(gb200, 64, 4).crosses());
}

// facts step-time.md 6: 361 GB/s bus bandwidth of an 8-GPU gather.
TEST_F(Collectives, a_large_gather_in_a_node_reaches_the_measured_bandwidth) {
  const double seconds = gather_seconds(h100, span_of(h100, 8, 1), kGiB);
  EXPECT_NEAR(kGiB * 7 / 8 / seconds / 361e9, 1, 0.05);
}

// facts step-time.md 6: 4 x 8 B200 with 50 GB/s NICs reach 362 to 382 GB/s at 1 to 16 GiB.
TEST_F(Collectives, an_all_reduce_over_nodes_uses_every_nic) {
  const Machine b200(test::cluster_of("b200-sxm-180gb", 32), built_in());
  const double seconds = all_reduce_seconds(b200, span_of(b200, 32, 1), 16 * kGiB);
  EXPECT_NEAR(16 * kGiB * 2 * 31 / 32 / seconds / 382e9, 1, 0.2);
}

TEST_F(Collectives, a_group_with_one_member_per_node_has_one_nic) {
  EXPECT_GT(gather_seconds(h100, span_of(h100, 8, 8), kGiB), 5 * gather_seconds(h100, span_of(h100, 64, 1), kGiB));
}

TEST_F(Collectives, merging_dispatch_sends_less_than_one_copy_per_expert) {
  const Span span = span_of(gb200, 8, 1);
  EXPECT_LT(dispatch_seconds(gb200, span, kGiB, 8), dispatch_seconds(gb200, span, 8 * kGiB, 0));
}

TEST_F(Collectives, a_group_of_one_sends_nothing) {
  const Span alone = span_of(h100, 1, 1);
  EXPECT_EQ(gather_seconds(h100, alone, kGiB), 0);
  EXPECT_EQ(all_to_all_seconds(h100, alone, kGiB), 0);
  EXPECT_EQ(dispatch_seconds(h100, alone, kGiB, 8), 0);
}

}  // namespace
}  // namespace plimsoll::timing
