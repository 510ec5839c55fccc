// SPDX-License-Identifier: Apache-2.0
// The short policy against the whole one, request by request: the same addresses, sizes and bytes, until it gives up.
#include "allocator/roomy.h"

#include <iterator>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/caching.h"
#include "base/bytes.h"

namespace plimsoll::allocator {
namespace {

// Sizes that come again and again, as in a training step, and now and then any other.
std::int64_t a_size(std::mt19937& random, unsigned seed) {
  constexpr std::int64_t kUsual[] = {1, 512, 4096, 8192 + 1, 65536, kMiB, 3 * kMiB, 12 * kMiB, 16 * kMiB, 28 * kMiB};
  if (random() % 4 != 0) return kUsual[random() % (seed % 2 == 0 ? std::size(kUsual) : 4)];
  return 1 + static_cast<std::int64_t>(random() % (random() % 2 == 0 ? 40 * kMiB : 64 * kKiB));
}

struct Outcome {
  int served = 0;
  bool gave_up = false;
};

// Both allocators through the same requests; what is alive swings between nothing and `most` blocks.
Outcome run_both(const Settings& settings, std::int64_t capacity, unsigned seed, int requests,
                 bool empties_cache = false) {
  const SimulatedDriver driver(capacity, capacity);
  SimulatedDriver whole_driver = driver;
  CachingAllocator whole(settings, whole_driver);
  RoomyAllocator roomy(settings, driver, 3);
  const std::uint32_t streams[] = {0, whole.add_stream(1), whole.add_stream(2)};
  struct Live {
    BlockId block;
    RoomyAllocator::Block* roomy;
  };
  std::vector<Live> live;
  std::mt19937 random(seed);
  Outcome run;
  for (int i = 0; i < requests; ++i) {
    const std::size_t most = 40 + 400 * static_cast<std::size_t>(i / 1500 % 3);
    if (empties_cache && i % 700 == 699) {
      whole.release_cached();
      EXPECT_TRUE(roomy.release_cached());
      EXPECT_EQ(whole.stats().reserved, roomy.reserved()) << "request " << i;
      EXPECT_EQ(whole.stats().peak_reserved, roomy.peak_reserved()) << "request " << i;
    }
    if (!live.empty() && random() % 100 < (live.size() < most ? 30U : 80U)) {
      Live& freed = live[random() % 3 == 0 ? live.size() - 1 : random() % live.size()];
      whole.free(freed.block);
      roomy.free(freed.roomy);
      freed = live.back();
      live.pop_back();
    } else {
      const std::int64_t bytes = a_size(random, seed);
      const std::uint32_t stream = random() % 8 == 0 ? 1 + random() % 2 : 0;
      RoomyAllocator::Block* const block = roomy.allocate(round_size(settings, bytes), stream);
      if (block == nullptr) {
        run.gave_up = true;
        return run;
      }
      live.push_back({whole.allocate({bytes, streams[stream]}).value(), block});
      EXPECT_EQ(whole.stats().retries, 0) << "it should have given up";
      EXPECT_EQ(whole.block_size(live.back().block), block->size) << "request " << i;
      EXPECT_EQ(whole.address(live.back().block), block->address) << "request " << i;
    }
    ++run.served;
    EXPECT_EQ(whole.stats().allocated, roomy.allocated()) << "request " << i;
    EXPECT_EQ(whole.stats().reserved, roomy.reserved()) << "request " << i;
    EXPECT_EQ(whole.stats().driver_calls(), roomy.driver_calls()) << "request " << i;
    if (testing::Test::HasFailure()) return run;
  }
  return run;
}

TEST(RoomyAllocator, does_what_the_whole_policy_does) {
  for (const char* text : {"", "expandable_segments:True", "large_segment_size_mb:40",
                           "expandable_segments:True,garbage_collection_threshold:0.8"}) {
    const Settings settings = parse_settings(text).value();
    ASSERT_TRUE(RoomyAllocator::covers(settings)) << text;
    for (unsigned seed = 0; seed < 12; ++seed) {
      const Outcome run = run_both(settings, std::int64_t{1} << 50, seed, 6000);
      ASSERT_FALSE(HasFailure()) << text << ", seed " << seed;
      EXPECT_FALSE(run.gave_up) << text << ", seed " << seed;
    }
  }
}

TEST(RoomyAllocator, an_emptied_cache_leaves_what_the_whole_policy_leaves) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const Outcome run = run_both({}, std::int64_t{1} << 50, seed, 6000, true);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    EXPECT_FALSE(run.gave_up) << "seed " << seed;
  }
}

TEST(RoomyAllocator, leaves_expandable_segments_to_the_whole_policy) {
  Settings settings;
  settings.expandable_segments = true;
  RoomyAllocator roomy(settings, SimulatedDriver(kGiB, kGiB), 1);
  RoomyAllocator::Block* const block = roomy.allocate(64 * kMiB, 0);
  roomy.free(block);
  const std::int64_t reserved = roomy.reserved();
  EXPECT_FALSE(roomy.release_cached());
  EXPECT_EQ(roomy.reserved(), reserved);
}

TEST(RoomyAllocator, gives_up_where_the_whole_policy_would_have_to_release) {
  for (const bool expandable : {false, true}) {
    Settings settings;
    settings.expandable_segments = expandable;
    int gave_up = 0;
    for (unsigned seed = 0; seed < 12; ++seed) {
      const Outcome run = run_both(settings, 2 * kGiB + 77 * kMiB * seed, seed, 6000);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
      gave_up += run.gave_up ? 1 : 0;
    }
    EXPECT_GT(gave_up, 5) << "the device should be too small for most";
  }
}

TEST(RoomyAllocator, covers_no_setting_that_it_does_not_know) {
  for (const char* text : {"max_split_size_mb:128", "roundup_power2_divisions:4"})
    EXPECT_FALSE(RoomyAllocator::covers(parse_settings(text).value())) << text;
  Settings settings;
  settings.fraction = 0.9;
  EXPECT_FALSE(RoomyAllocator::covers(settings));
}

}  // namespace
}  // namespace plimsoll::allocator
