// SPDX-License-Identifier: Apache-2.0
// Caches that do not share: streams and private pools; frees that wait; garbage collection (facts
// pytorch-allocator.md 3, 8, 9, 10).
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::allocator {
namespace {

using test::Bytes;
using test::Machine;

TEST(Streams, a_cached_block_serves_its_own_stream_only) {
  Machine m;
  const std::uint32_t side = m.allocator.add_stream(0x1000);
  m.allocator.free(m.take(40 * kMiB));
  ASSERT_TRUE(m.allocator.allocate(Request{40 * kMiB, side}));
  EXPECT_EQ(m.reserved(), 80 * kMiB);
  m.take(40 * kMiB);
  EXPECT_EQ(m.reserved(), 80 * kMiB) << "the first stream has its block back";
}

TEST(Streams, memory_that_went_back_can_come_to_another_stream) {
  Machine m({}, 50 * kMiB);
  const std::uint32_t side = m.allocator.add_stream(0x1000);
  m.allocator.free(m.take(40 * kMiB));
  ASSERT_TRUE(m.allocator.allocate(Request{40 * kMiB, side}));
  EXPECT_EQ(m.allocator.stats().retries, 1);
  EXPECT_EQ(m.driver.released, std::vector<int>{0});
}

TEST(PendingFree, is_no_longer_allocated_but_still_active) {
  Machine m;
  const auto block = m.take(40 * kMiB);
  m.allocator.request_free(block);
  EXPECT_EQ(m.allocator.stats().allocated, 0);
  EXPECT_EQ(m.allocator.stats().active(), 40 * kMiB);
  m.take(40 * kMiB);
  EXPECT_EQ(m.reserved(), 80 * kMiB) << "not reusable yet";
  m.allocator.complete_free(block);
  m.take(40 * kMiB);
  EXPECT_EQ(m.reserved(), 80 * kMiB);
}

TEST(PendingFree, a_release_of_the_cache_completes_it_and_names_its_owner) {
  Machine m;
  const auto block = m.allocator.allocate(Request{40 * kMiB, 0, 0, 7});
  m.allocator.request_free(*block);
  m.allocator.release_cached();
  EXPECT_EQ(m.reserved(), 0);
  EXPECT_EQ(m.allocator.take_completed(), std::vector<std::uint32_t>{7});
}

TEST(PrivatePool, has_segments_of_its_own) {
  Machine m;
  m.allocator.free(m.take(40 * kMiB));
  const auto inside = m.allocator.allocate(Request{40 * kMiB, 0, 1});
  ASSERT_TRUE(inside);
  EXPECT_EQ(m.reserved(), 80 * kMiB);
  m.allocator.free(*inside);
  m.take(40 * kMiB);
  m.take(40 * kMiB);
  EXPECT_EQ(m.reserved(), 120 * kMiB) << "what the private pool cached does not serve the default one";
}

TEST(PrivatePool, a_request_of_it_releases_nothing_before_2_12) {
  for (const Version torch : {Version{2, 11}, Version{2, 12}}) {
    test::WatchedDriver driver(50 * kMiB);
    Settings settings;
    settings.torch = torch;
    CachingAllocator allocator(settings, driver);
    allocator.free(*allocator.allocate(40 * kMiB));
    EXPECT_EQ(allocator.allocate(Request{40 * kMiB, 0, 1}).has_value(), (torch >= Version{2, 12}));
  }
}

TEST(Garbage, old_unsplit_blocks_go_back_once_the_threshold_is_passed) {
  Machine m("garbage_collection_threshold:0.5,per_process_memory_fraction:0.5", 800 * kMiB);
  m.allocator.free(m.take(150 * kMiB));  // grows old: nobody asks for its size again
  for (int i = 0; i < 20; ++i) m.allocator.free(m.take(30 * kMiB));
  EXPECT_EQ(m.driver.released, std::vector<int>{});
  m.take(160 * kMiB);  // 180 MiB are reserved, the threshold is 200: not passed yet
  EXPECT_EQ(m.driver.released, std::vector<int>{});
  m.take(156 * kMiB);  // 340 MiB are, and the 150 MiB block is the oldest
  ASSERT_FALSE(m.driver.released.empty());
  EXPECT_EQ(m.driver.released.front(), 0) << "segment 0 was used least";
  EXPECT_GE(m.allocator.stats().collected, 1);
}

TEST(Garbage, does_nothing_without_a_fraction) {
  Machine m("garbage_collection_threshold:0.1", 800 * kMiB);
  m.allocator.free(m.take(150 * kMiB));
  m.take(300 * kMiB);
  EXPECT_EQ(m.allocator.stats().collected, 0);
}

TEST(Version, a_fraction_of_one_lets_garbage_be_collected_before_2_9) {
  for (const Version torch : {Version{2, 8}, Version{2, 9}}) {
    test::WatchedDriver driver(800 * kMiB);
    Settings settings;
    settings.torch = torch;
    settings.gc_threshold = 0.1;
    settings.fraction = 1.0;
    CachingAllocator allocator(settings, driver);
    allocator.free(*allocator.allocate(150 * kMiB));
    ASSERT_TRUE(allocator.allocate(300 * kMiB));
    EXPECT_EQ(allocator.stats().collected > 0, (torch < Version{2, 9}));
  }
}

TEST(Version, names_are_known_from_their_release_on) {
  EXPECT_FALSE(parse_settings("per_process_memory_fraction:0.5", {2, 8}));
  EXPECT_TRUE(parse_settings("per_process_memory_fraction:0.5", {2, 9}));
  EXPECT_FALSE(parse_settings("throw_on_cudamalloc_oom:True", {2, 11}));
  EXPECT_EQ(parse_version("2.11.0+cu130").value(), (Version{2, 11}));
  for (const char* bad : {"", "2", "two", "2.", "1.13", "2.6x"}) EXPECT_FALSE(parse_version(bad)) << bad;
}

TEST(Limit, a_request_over_the_fraction_can_fail_at_once) {
  Machine m;
  Settings settings = test::settings("per_process_memory_fraction:0.5");
  settings.torch = {2, 12};
  settings.throws_at_limit = true;
  test::WatchedDriver driver(100 * kMiB);
  CachingAllocator allocator(settings, driver);
  allocator.free(*allocator.allocate(40 * kMiB));
  EXPECT_FALSE(allocator.allocate(45 * kMiB)) << "nothing is released for it";
  EXPECT_EQ(driver.released, std::vector<int>{});
}

TEST(Restore, a_state_continues_as_the_allocator_it_came_from) {
  for (const char* setting : {"", "expandable_segments:True"}) {
    Machine m(setting);
    const auto a = m.take(30 * kMiB);
    m.take(2 * kMiB);
    m.take(512);
    m.allocator.free(a);
    test::WatchedDriver driver;
    CachingAllocator again(test::settings(setting), driver);
    again.restore(m.allocator.segments());
    EXPECT_EQ(again.stats().reserved, m.reserved()) << setting;
    EXPECT_EQ(again.stats().allocated, m.allocator.stats().allocated);
    EXPECT_EQ(again.largest_free(), m.allocator.largest_free());
    for (const std::int64_t bytes : {25 * kMiB, 100 * kMiB, kKiB}) {
      m.take(bytes);
      ASSERT_TRUE(again.allocate(bytes));
      EXPECT_EQ(again.stats().reserved, m.reserved()) << setting << " after " << bytes;
    }
  }
}

}  // namespace
}  // namespace plimsoll::allocator
