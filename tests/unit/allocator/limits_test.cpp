// SPDX-License-Identifier: Apache-2.0
// What happens when memory runs short: release and retry, the memory fraction, the end of the device
// (facts pytorch-allocator.md 6, 7).
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::allocator {
namespace {

using test::Bytes;
using test::Machine;

TEST(Capacity, the_last_byte_of_the_device_can_be_allocated) {
  Machine m({}, 100 * kMiB);
  m.take(60 * kMiB);
  m.take(40 * kMiB);
  EXPECT_EQ(m.reserved(), 100 * kMiB);
  EXPECT_FALSE(m.allocator.allocate(1));
  EXPECT_EQ(m.allocator.stats().allocated, 100 * kMiB) << "a failed request changes nothing";
}

TEST(Capacity, a_segment_of_20_mib_must_fit_though_2_mib_were_asked_for) {
  Machine m({}, 79 * kMiB);
  m.take(60 * kMiB);
  EXPECT_FALSE(m.allocator.allocate(2 * kMiB));
  m.take(12 * kMiB);
}

TEST(Retry, cached_segments_go_back_before_the_second_attempt) {
  Machine m({}, 100 * kMiB);
  const auto a = m.take(30 * kMiB);
  const auto b = m.take(40 * kMiB);
  m.take(20 * kMiB);
  m.allocator.free(a);
  m.allocator.free(b);
  m.take(70 * kMiB);  // 30 and 40 MiB cached, 10 MiB never taken
  EXPECT_EQ(m.driver.released, (std::vector<int>{0, 1}));
  EXPECT_EQ(m.reserved(), 90 * kMiB);
  EXPECT_EQ(m.allocator.stats().retries, 1);
}

TEST(Retry, the_large_pool_goes_back_before_the_small_one_in_order_of_size) {
  Machine m;
  const std::vector blocks = {m.take(512), m.take(40 * kMiB), m.take(12 * kMiB)};
  for (const auto block : blocks) m.allocator.free(block);
  m.allocator.release_cached();
  EXPECT_EQ(m.driver.released, (std::vector<int>{2, 1, 0}));
}

TEST(Retry, a_partly_used_segment_cannot_go_back) {
  Machine m({}, 100 * kMiB);
  const auto a = m.take(50 * kMiB);
  m.allocator.free(a);
  m.take(2 * kMiB);  // sits in front of 48 free MiB
  EXPECT_EQ(m.driver.taken, Bytes{50 * kMiB});
  EXPECT_FALSE(m.allocator.allocate(60 * kMiB)) << "fragmented: 98 MiB are free, 50 of them in a used segment";
  EXPECT_EQ(m.reserved(), 50 * kMiB);
}

TEST(Oversize, one_block_that_is_large_enough_goes_back_alone) {
  Machine m("max_split_size_mb:64", 300 * kMiB);
  const std::vector blocks = {m.take(12 * kMiB), m.take(80 * kMiB), m.take(140 * kMiB)};
  for (const auto block : blocks) m.allocator.free(block);
  m.take(110 * kMiB);  // 140 >= 110 + 20 is not handed out; 68 MiB are left on the device
  EXPECT_EQ(m.driver.released, std::vector<int>{2});
  EXPECT_EQ(m.allocator.stats().retries, 0);
}

TEST(Oversize, otherwise_the_largest_go_back_until_their_sum_is_enough) {
  Machine m("max_split_size_mb:64", 300 * kMiB);
  const std::vector blocks = {m.take(12 * kMiB), m.take(70 * kMiB), m.take(80 * kMiB), m.take(90 * kMiB)};
  for (const auto block : blocks) m.allocator.free(block);
  m.take(160 * kMiB);
  EXPECT_EQ(m.driver.released, (std::vector<int>{3, 2})) << "90 + 80 >= 160; 70 and 12 stay cached";
}

TEST(Oversize, without_max_split_size_everything_goes_back) {
  Machine m({}, 300 * kMiB);
  const std::vector blocks = {m.take(12 * kMiB), m.take(80 * kMiB), m.take(100 * kMiB)};
  for (const auto block : blocks) m.allocator.free(block);
  m.take(120 * kMiB);
  EXPECT_EQ(m.driver.released, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(m.allocator.stats().retries, 1);
}

TEST(Fraction, counts_reserved_bytes_and_allows_exactly_the_limit) {
  Machine m("per_process_memory_fraction:0.5", 100 * kMiB);
  m.take(30 * kMiB);
  m.take(20 * kMiB);
  EXPECT_FALSE(m.allocator.allocate(1));
  EXPECT_EQ(m.reserved(), 50 * kMiB);
}

TEST(Fraction, tests_the_segment_size_even_where_less_would_be_mapped) {
  for (const char* setting :
       {"per_process_memory_fraction:0.5", "per_process_memory_fraction:0.5,expandable_segments:True"}) {
    Machine m(setting, 100 * kMiB);
    m.take(40 * kMiB);
    EXPECT_FALSE(m.allocator.allocate(2 * kMiB)) << "40 + 20 > 50: " << setting;
    m.take(512);  // 40 + 2 <= 50
  }
}

TEST(Fraction, an_expandable_request_is_tested_with_its_rounded_size_from_10_mib_on) {
  Machine m("per_process_memory_fraction:0.5,expandable_segments:True", 100 * kMiB);
  m.take(20 * kMiB);
  m.take(10 * kMiB);  // 20 + 10 <= 50, though a granule of 20 MiB is mapped
  EXPECT_EQ(m.reserved(), 40 * kMiB);
  m.take(10 * kMiB);  // the rest of that granule
  EXPECT_EQ(m.reserved(), 40 * kMiB);
}

TEST(Fraction, a_whole_device_is_no_limit) {
  Machine m("per_process_memory_fraction:1.0", 100 * kMiB);
  m.take(100 * kMiB);
  EXPECT_EQ(m.reserved(), 100 * kMiB);
}

}  // namespace
}  // namespace plimsoll::allocator
