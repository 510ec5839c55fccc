// SPDX-License-Identifier: Apache-2.0
// A history replayed under its own settings comes out as it was recorded, wherever its recording began.
#include "replay/exact.h"

#include <random>

#include "replay/limits.h"
#include "support.h"

namespace plimsoll::replay {
namespace {

using test::history_of;
using test::Recorder;

// Random sizes from both pools, births and deaths, an empty_cache() now and then.
void churn(Recorder& recorder, unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::vector<int> live;
  for (int i = 0; i < steps; ++i) {
    if (random() % 200 == 0) recorder.empty_cache();
    if (live.empty() || random() % 5 < 3) {
      const std::int64_t unit = random() % 3 == 0 ? kMiB : random() % 2 == 0 ? kKiB : 64 * kKiB;
      const int object = recorder.alloc(static_cast<std::int64_t>(1 + random() % 60) * unit + random() % 512);
      if (object > 0) live.push_back(object);
    } else {
      const std::size_t at = random() % live.size();
      recorder.free(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

ExactReplay replay(const snapshot::Snapshot& snapshot, std::string_view conf, std::int64_t total = 0) {
  const History history = history_of(snapshot);
  const auto settings = test::settings(conf);
  KnownLimits known;
  known.total = total;
  return replay_exactly(history, settings, recorded_limits(known, infer_limit(history, settings)));
}

std::string told(const ExactReplay& replay) {
  if (replay.exact()) return "exact";
  const Difference& d = *replay.first_difference;
  return "event " + std::to_string(d.event) + ": recorded " + d.recorded + ", simulated " + d.simulated;
}

TEST(Exact, random_programs_are_reproduced_under_every_kind_of_setting) {
  for (const char* conf : {"", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4"}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Recorder recorder(conf);
      churn(recorder, seed, 1500);
      const ExactReplay result = replay(recorder.take(), conf, 80 * kGiB);
      EXPECT_EQ(told(result), "exact") << conf << " seed " << seed;
      EXPECT_EQ(result.reproduced, recorder.events());
      EXPECT_EQ(result.final_blocks_equal, true);
      EXPECT_EQ(result.run.stats.peak_reserved, recorder.allocator().stats().peak_reserved);
      EXPECT_EQ(result.run.stats.peak_allocated, recorder.allocator().stats().peak_allocated);
    }
  }
}

TEST(Exact, programs_at_the_end_of_the_device_are_reproduced) {
  for (const char* conf : {"", "expandable_segments:True", "max_split_size_mb:32"}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Recorder recorder(conf, 400 * kMiB);
      churn(recorder, seed, 1500);
      ASSERT_GT(recorder.allocator().stats().ooms, 0) << "the test wants memory to run out";
      EXPECT_EQ(told(replay(recorder.take(), conf, 400 * kMiB)), "exact") << conf << " seed " << seed;
    }
  }
}

// The size of a block that was there before is not recorded. An allocation behind it gives it away; where none comes,
// an unsplit rest of up to 1 MiB can be taken for free memory: which of the forty, changes with where segments lie.
TEST(Exact, a_recording_that_began_late_is_reproduced_where_its_events_tell_the_start) {
  int exact = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    for (const std::size_t cut : {1U, 7U, 500U, 1400U}) {
      Recorder recorder;
      churn(recorder, seed, 1500);
      const snapshot::Snapshot snapshot = recorder.take(cut);
      EXPECT_FALSE(history_of(snapshot).starts_empty());
      exact += replay(snapshot, "").exact() ? 1 : 0;
    }
  }
  EXPECT_GE(exact, 36) << "of 40";
}

TEST(Exact, the_first_event_that_differs_is_named_with_both_sides) {
  Recorder recorder;
  const int first = recorder.alloc(12 * kMiB);
  recorder.alloc(12 * kMiB);
  recorder.free(first);
  recorder.alloc(12 * kMiB);  // must take the first one's place
  snapshot::Snapshot snapshot = recorder.take();
  const std::size_t last = snapshot.events.count() - 1;
  snapshot.events.address[last] += 512;
  const ExactReplay result = replay(snapshot, "");
  ASSERT_FALSE(result.exact());
  EXPECT_EQ(result.first_difference->event, last);
  EXPECT_EQ(result.reproduced, last);
  EXPECT_NE(result.first_difference->recorded.find("alloc of 12582912 bytes"), std::string::npos);
  EXPECT_NE(result.first_difference->simulated.find("alloc of 12582912 bytes"), std::string::npos);
}

TEST(Exact, other_blocks_at_the_end_are_a_difference) {
  Recorder recorder;
  recorder.free(recorder.alloc(12 * kMiB));
  snapshot::Snapshot snapshot = recorder.take();
  snapshot.blocks[0].state = snapshot::BlockState::kActivePendingFree;
  const ExactReplay result = replay(snapshot, "");
  EXPECT_EQ(result.final_blocks_equal, false);
  EXPECT_FALSE(result.exact());
}

TEST(Exact, an_empty_cache_of_the_program_is_found_and_kept) {
  Recorder recorder;
  recorder.free(recorder.alloc(12 * kMiB));
  recorder.empty_cache();
  recorder.alloc(14 * kMiB);
  const snapshot::Snapshot snapshot = recorder.take();
  History history = history_of(snapshot);
  const ExactReplay result = replay_exactly(history, {}, {});
  ASSERT_EQ(result.empty_caches.size(), 1U);
  insert_empty_caches(history, result.empty_caches);
  EXPECT_EQ(std::count_if(history.ops.begin(), history.ops.end(),
                          [](const Op& op) { return op.kind == OpKind::kEmptyCache; }),
            1);
  EXPECT_EQ(run(history, {}).stats.peak_reserved, 14 * kMiB) << "without the call it would be 26 MiB";
}

TEST(Exact, a_block_that_another_stream_uses_is_not_reused_before_its_free_is_complete) {
  Recorder recorder;
  const int first = recorder.alloc(12 * kMiB);
  recorder.request_free(first);
  recorder.alloc(12 * kMiB);
  recorder.complete_free(first);
  recorder.alloc(12 * kMiB);
  const snapshot::Snapshot snapshot = recorder.take();
  EXPECT_EQ(told(replay(snapshot, "")), "exact");
  EXPECT_EQ(run(history_of(snapshot), {}).stats.peak_reserved, 24 * kMiB);
}

}  // namespace
}  // namespace plimsoll::replay
