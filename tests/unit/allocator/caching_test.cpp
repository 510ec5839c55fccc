// SPDX-License-Identifier: Apache-2.0
// Segments, pools, best fit, splitting and merging (facts pytorch-allocator.md 1-7).
#include "allocator/caching.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::allocator {
namespace {

using test::Bytes;
using test::Machine;

TEST(Segments, their_size_follows_the_rounded_request) {
  Machine m;
  m.take(1);              // small pool: 2 MiB
  m.take(kMiB + 1);       // below 10 MiB: 20 MiB
  m.take(10 * kMiB);      // fits in the rest of those 20 MiB
  m.take(10 * kMiB);      // from 10 MiB on: its own, in multiples of 2 MiB
  m.take(10 * kMiB + 1);  // 12 MiB
  m.take(129 * kMiB);     // 130 MiB
  EXPECT_EQ(m.driver.taken, (Bytes{2 * kMiB, 20 * kMiB, 10 * kMiB, 12 * kMiB, 130 * kMiB}));
  EXPECT_EQ(m.reserved(), 174 * kMiB);
  EXPECT_EQ(m.allocator.stats().driver_calls(), 5);
}

TEST(Segments, a_larger_large_segment_serves_requests_below_10_mib) {
  Machine m("large_segment_size_mb:40");
  m.take(2 * kMiB);
  EXPECT_EQ(m.driver.taken, Bytes{40 * kMiB});
}

TEST(Pools, the_rounded_size_decides_and_1_mib_is_small) {
  Machine m;
  m.take(kMiB);
  EXPECT_EQ(m.driver.taken, Bytes{2 * kMiB});
  m.take(kMiB - 511);  // rounds to 1 MiB as well: the second half of that segment
  EXPECT_EQ(m.driver.taken, Bytes{2 * kMiB});
  m.take(kMiB + 1);
  EXPECT_EQ(m.driver.taken, (Bytes{2 * kMiB, 20 * kMiB}));
}

TEST(Pools, a_small_request_never_uses_free_memory_of_the_large_pool) {
  Machine m;
  m.allocator.free(m.take(64 * kMiB));
  m.take(512);
  EXPECT_EQ(m.driver.taken, (Bytes{64 * kMiB, 2 * kMiB}));
}

TEST(Splitting, the_small_pool_splits_off_512_bytes) {
  Machine m;
  const auto block = m.take(kMiB);
  EXPECT_EQ(m.allocator.block_size(block), kMiB);
  m.allocator.free(block);
  const auto again = m.take(kMiB - 512);
  EXPECT_EQ(m.allocator.block_size(again), kMiB - 512);
}

TEST(Splitting, the_large_pool_keeps_a_rest_of_exactly_1_mib) {
  Machine m;
  m.allocator.free(m.take(32 * kMiB));
  const auto block = m.take(31 * kMiB);
  EXPECT_EQ(m.allocator.block_size(block), 32 * kMiB);
  EXPECT_EQ(m.allocator.stats().allocated, 32 * kMiB);
  EXPECT_EQ(m.allocator.stats().requested, 31 * kMiB);
}

TEST(Splitting, the_large_pool_splits_off_a_rest_of_512_bytes_more) {
  Machine m;
  m.allocator.free(m.take(32 * kMiB));
  const auto block = m.take(31 * kMiB - 512);
  EXPECT_EQ(m.allocator.block_size(block), 31 * kMiB - 512);
  EXPECT_EQ(m.allocator.largest_free(), kMiB + 512);
}

TEST(Splitting, the_front_is_handed_out_and_the_rest_serves_the_next_request) {
  Machine m;
  const auto first = m.take(4 * kMiB);
  m.take(4 * kMiB);
  m.allocator.free(first);
  m.take(12 * kMiB);  // the tail behind both
  EXPECT_EQ(m.driver.taken, Bytes{20 * kMiB});
  m.take(4 * kMiB);  // the hole in front
  EXPECT_EQ(m.driver.taken, Bytes{20 * kMiB});
  EXPECT_EQ(m.allocator.largest_free(), 0);
}

TEST(Splitting, a_request_of_max_split_size_keeps_the_whole_block) {
  Machine m("max_split_size_mb:64");
  m.allocator.free(m.take(80 * kMiB));
  EXPECT_EQ(m.allocator.block_size(m.take(70 * kMiB)), 80 * kMiB);
}

TEST(BestFit, the_smallest_block_that_is_large_enough_is_taken) {
  Machine m;
  const auto large = m.take(40 * kMiB);
  const auto middle = m.take(14 * kMiB);
  const auto small = m.take(12 * kMiB);
  for (const auto block : {large, middle, small}) m.allocator.free(block);
  EXPECT_EQ(m.allocator.block_size(m.take(13 * kMiB)), 14 * kMiB);
  EXPECT_EQ(m.allocator.block_size(m.take(12 * kMiB)), 12 * kMiB);
}

TEST(BestFit, of_two_equal_blocks_the_lower_address_is_taken) {
  for (const bool first_freed_first : {true, false}) {
    Machine m;
    const auto low = m.take(12 * kMiB);
    const auto high = m.take(12 * kMiB);  // the simulated driver fills its first hole upwards
    ASSERT_LT(m.allocator.address(low), m.allocator.address(high));
    m.allocator.free(first_freed_first ? low : high);
    m.allocator.free(first_freed_first ? high : low);
    m.take(12 * kMiB);
    m.allocator.release_cached();
    EXPECT_EQ(m.driver.released, std::vector<int>{1}) << "segment 0 is in use";
  }
}

TEST(BestFit, a_small_request_leaves_blocks_of_max_split_size_alone) {
  Machine m("max_split_size_mb:64");
  m.allocator.free(m.take(64 * kMiB));
  m.take(12 * kMiB);
  EXPECT_EQ(m.driver.taken, (Bytes{64 * kMiB, 12 * kMiB}));
}

TEST(BestFit, a_request_of_max_split_size_refuses_a_block_that_is_20_mib_larger) {
  Machine m("max_split_size_mb:64");
  m.allocator.free(m.take(90 * kMiB));
  EXPECT_EQ(m.allocator.block_size(m.take(70 * kMiB)), 70 * kMiB) << "90 >= 70 + 20: a new segment";
  EXPECT_EQ(m.allocator.block_size(m.take(72 * kMiB)), 90 * kMiB) << "90 < 72 + 20: the cached one, whole";
}

TEST(Merging, neighbours_join_on_both_sides_whatever_the_order_of_frees) {
  const std::vector<std::vector<std::size_t>> orders = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
  for (const auto& order : orders) {
    Machine m;
    const std::vector blocks = {m.take(4 * kMiB), m.take(4 * kMiB), m.take(4 * kMiB)};  // and 8 MiB of tail
    for (const std::size_t i : order) m.allocator.free(blocks[i]);
    EXPECT_EQ(m.allocator.largest_free(), 20 * kMiB);
    m.allocator.release_cached();
    EXPECT_EQ(m.reserved(), 0) << "whole again, so it can go back";
  }
}

TEST(Merging, never_crosses_a_segment) {
  Machine m;
  const auto a = m.take(12 * kMiB);
  const auto b = m.take(12 * kMiB);
  m.allocator.free(a);
  m.allocator.free(b);
  EXPECT_EQ(m.allocator.largest_free(), 12 * kMiB);
}

TEST(Statistics, peaks_hold_the_highest_point_and_can_be_reset) {
  Machine m;
  const auto a = m.take(12 * kMiB);
  m.allocator.free(a);
  EXPECT_EQ(m.allocator.stats().allocated, 0);
  EXPECT_EQ(m.allocator.stats().peak_allocated, 12 * kMiB);
  EXPECT_EQ(m.allocator.stats().peak_requested, 12 * kMiB);
  EXPECT_EQ(m.allocator.stats().peak_reserved, 12 * kMiB);
  m.allocator.release_cached();
  m.allocator.reset_peaks();
  EXPECT_EQ(m.allocator.stats().peak_allocated, 0);
  EXPECT_EQ(m.allocator.stats().peak_reserved, 0);
}

}  // namespace
}  // namespace plimsoll::allocator
