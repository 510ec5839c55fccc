// SPDX-License-Identifier: Apache-2.0
// Expandable segments: one range per pool that grows by granules (facts pytorch-allocator.md 7b).
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::allocator {
namespace {

using test::Bytes;
using test::Machine;

constexpr const char* kOn = "expandable_segments:True";

TEST(Expandable, each_pool_has_one_range_of_nine_eighths_of_the_device) {
  Machine m(kOn, 80 * kGiB);
  m.take(512);
  m.take(2 * kMiB);
  m.take(512);
  m.take(300 * kMiB);
  // 90 GiB in granules of 2 MiB, and of 20 MiB: ceil(92160 MiB / 20 MiB) = 4608.
  EXPECT_EQ(m.driver.ranges, (Bytes{90 * kGiB, 4608 * 20 * kMiB}));
}

TEST(Expandable, memory_is_mapped_in_granules_of_2_mib_and_20_mib) {
  Machine m(kOn);
  m.take(512);
  EXPECT_EQ(m.driver.mapped, Bytes{2 * kMiB});
  m.take(2 * kMiB);
  EXPECT_EQ(m.driver.mapped.back(), 20 * kMiB);
  m.take(100 * kMiB);  // 18 MiB of the first granule are free, 82 are missing: five granules
  EXPECT_EQ(m.driver.mapped.back(), 100 * kMiB);
  EXPECT_EQ(m.reserved(), 122 * kMiB);
}

TEST(Expandable, the_granule_follows_the_large_segment_size) {
  Machine m("expandable_segments:True,large_segment_size_mb:64");
  m.take(2 * kMiB);
  EXPECT_EQ(m.driver.mapped, Bytes{64 * kMiB});
}

TEST(Expandable, a_rest_of_512_bytes_is_split_off_in_the_large_pool_too) {
  Machine m(kOn);
  EXPECT_EQ(m.allocator.block_size(m.take(20 * kMiB - 512)), 20 * kMiB - 512);
  EXPECT_EQ(m.allocator.largest_free(), 512);
}

TEST(Expandable, a_free_tail_grows_instead_of_a_new_segment) {
  Machine m(kOn);
  m.take(20 * kMiB);
  m.allocator.free(m.take(20 * kMiB));
  m.take(30 * kMiB);  // the 20 MiB tail and one granule more
  EXPECT_EQ(m.driver.mapped, (Bytes{20 * kMiB, 20 * kMiB, 20 * kMiB}));
  EXPECT_EQ(m.reserved(), 60 * kMiB);
}

TEST(Expandable, an_inner_hole_is_used_before_the_tail_that_can_grow) {
  Machine m(kOn);
  const auto hole = m.take(30 * kMiB);
  m.take(10 * kMiB);
  const auto tail = m.take(20 * kMiB);
  m.allocator.free(hole);
  m.allocator.free(tail);
  m.take(15 * kMiB);  // best fit would be the 20 MiB tail; the 30 MiB hole cannot grow and goes first
  EXPECT_EQ(m.allocator.largest_free(), 20 * kMiB);
}

TEST(Expandable, releasing_unmaps_whole_granules_and_keeps_the_parts_around_them) {
  Machine m(kOn);
  m.take(10 * kMiB);
  const auto middle = m.take(60 * kMiB);  // from 10 to 70 MiB: whole granules from 20 to 60
  m.take(10 * kMiB);
  m.allocator.free(middle);
  m.allocator.release_cached();
  EXPECT_EQ(m.driver.unmapped, Bytes{40 * kMiB});
  EXPECT_EQ(m.reserved(), 40 * kMiB);
  EXPECT_EQ(m.allocator.largest_free(), 10 * kMiB);
  m.take(60 * kMiB);  // the hole is one run of free, unmapped, free: only the missing granules come back
  EXPECT_EQ(m.driver.mapped.back(), 40 * kMiB);
  EXPECT_EQ(m.reserved(), 80 * kMiB);
}

TEST(Expandable, a_free_part_of_one_granule_stays_mapped) {
  Machine m(kOn);
  m.take(10 * kMiB);
  m.allocator.release_cached();
  EXPECT_EQ(m.driver.unmapped, Bytes{});
  EXPECT_EQ(m.reserved(), 20 * kMiB);
}

TEST(Expandable, everything_goes_back_when_nothing_is_allocated) {
  Machine m(kOn);
  const std::vector blocks = {m.take(512), m.take(30 * kMiB), m.take(5 * kMiB), m.take(kMiB)};
  for (const auto block : blocks) m.allocator.free(block);
  m.allocator.release_cached();
  EXPECT_EQ(m.reserved(), 0);
  m.take(30 * kMiB);
  EXPECT_EQ(m.reserved(), 40 * kMiB);
}

TEST(Expandable, a_request_beyond_the_device_fails_and_leaves_the_rest_usable) {
  Machine m(kOn, 100 * kMiB);
  const auto kept = m.take(20 * kMiB);
  EXPECT_FALSE(m.allocator.allocate(90 * kMiB));
  EXPECT_FALSE(m.allocator.allocate(kGiB)) << "larger than any range";
  m.allocator.free(kept);
  m.take(100 * kMiB);
  EXPECT_EQ(m.reserved(), 100 * kMiB);
}

}  // namespace
}  // namespace plimsoll::allocator
