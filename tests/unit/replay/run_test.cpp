// SPDX-License-Identifier: Apache-2.0
// What another setting, another limit or another device would have done to a recorded program.
#include "replay/run.h"

#include "replay/advice.h"
#include "replay/limits.h"
#include "replay/pinned.h"
#include "replay/whatif.h"
#include "support.h"

namespace plimsoll::replay {
namespace {

using test::history_of;
using test::Recorder;

// Blocks that grow: each is too large for the hole that the last one left.
Recorder growing() {
  Recorder recorder;
  int last = recorder.alloc(100 * kMiB);
  for (std::int64_t size = 120; size <= 300; size += 20) {
    const int next = recorder.alloc(size * kMiB);
    recorder.free(last);
    last = next;
  }
  return recorder;
}

TEST(Run, expandable_segments_hold_what_grows_in_less_memory) {
  Recorder recorder = growing();
  const snapshot::Snapshot snapshot = recorder.take();
  const History history = history_of(snapshot);
  Conditions expandable;
  expandable.settings = test::settings("expandable_segments:True");
  const auto normal = run(history, {});
  const auto other = run(history, expandable);
  EXPECT_EQ(normal.stats.peak_reserved, recorder.allocator().stats().peak_reserved);
  EXPECT_LT(other.stats.peak_reserved, normal.stats.peak_reserved);
  EXPECT_EQ(other.stats.peak_requested, normal.stats.peak_requested) << "the program asked for the same";
  EXPECT_TRUE(other.finished);
}

TEST(Run, the_first_request_that_a_smaller_device_cannot_serve_ends_it) {
  Recorder recorder = growing();
  const snapshot::Snapshot snapshot = recorder.take();
  Conditions small;
  small.capacity = 500 * kMiB;
  const auto result = run(history_of(snapshot), small);
  ASSERT_TRUE(result.oom);
  EXPECT_FALSE(result.finished);
  EXPECT_FALSE(result.oom->was_recorded);
  EXPECT_EQ(result.oom->asked, result.oom->requested) << "whole MiB";
  EXPECT_EQ(result.oom->missing, result.oom->asked - (500 * kMiB - result.oom->reserved));
  EXPECT_GT(result.oom->missing, 0);
}

TEST(Run, a_recorded_failure_is_no_end_and_may_be_cured) {
  Recorder recorder({}, 300 * kMiB);
  recorder.alloc(200 * kMiB);
  EXPECT_EQ(recorder.alloc(200 * kMiB), -1);
  recorder.alloc(50 * kMiB);
  const snapshot::Snapshot snapshot = recorder.take();
  const History history = history_of(snapshot);
  Conditions same;
  same.capacity = 300 * kMiB;
  const auto again = run(history, same);
  ASSERT_TRUE(again.oom);
  EXPECT_TRUE(again.oom->was_recorded);
  EXPECT_TRUE(again.finished) << "the recorded program went on";
  EXPECT_FALSE(run(history, {}).oom) << "on an endless device";
}

TEST(Limit, a_full_device_is_told_from_a_memory_fraction) {
  Recorder full({}, 300 * kMiB);
  full.alloc(200 * kMiB);
  full.alloc(200 * kMiB);
  const snapshot::Snapshot snapshot = full.take();
  const auto limit = infer_limit(history_of(snapshot), {});
  ASSERT_TRUE(limit);
  EXPECT_FALSE(limit->fraction);
  EXPECT_EQ(limit->low, 200 * kMiB);
  EXPECT_EQ(limit->high, 300 * kMiB + 1);

  Recorder fraction("per_process_memory_fraction:0.1", 3000 * kMiB);
  fraction.alloc(200 * kMiB);
  fraction.alloc(200 * kMiB);
  const snapshot::Snapshot limited = fraction.take();
  const auto inferred = infer_limit(history_of(limited), {});
  ASSERT_TRUE(inferred);
  EXPECT_TRUE(inferred->fraction) << "2,800 MiB were free on the device";
  EXPECT_EQ(inferred->high, 400 * kMiB);
  EXPECT_EQ(inferred->seen_on_device, 3000 * kMiB);
}

TEST(Limit, nothing_is_inferred_where_memory_did_not_run_out) {
  Recorder recorder = growing();
  const snapshot::Snapshot snapshot = recorder.take();
  EXPECT_FALSE(infer_limit(history_of(snapshot), {}));
}

TEST(Pinned, a_small_block_holds_a_large_segment) {
  Recorder recorder;
  recorder.free(recorder.alloc(100 * kMiB));
  recorder.alloc(2 * kMiB);  // sits in the 100 MiB segment
  recorder.free(recorder.alloc(300 * kMiB));
  const Pinned pinned = find_pinned(recorder.allocator().segments(), {});
  EXPECT_EQ(pinned.reserved, 400 * kMiB);
  EXPECT_EQ(pinned.returnable, 300 * kMiB);
  EXPECT_EQ(pinned.idle, 98 * kMiB);
  ASSERT_EQ(pinned.segments.size(), 1U);
  EXPECT_EQ(pinned.segments[0].holders.size(), 1U);
  EXPECT_EQ(pinned.segments[0].largest_idle, 98 * kMiB);
}

TEST(Pinned, of_an_expandable_run_only_parts_of_granules_are_pinned) {
  Recorder recorder("expandable_segments:True");
  const int first = recorder.alloc(100 * kMiB);
  recorder.alloc(30 * kMiB);
  recorder.free(first);
  const Pinned pinned = find_pinned(recorder.allocator().segments(), {});
  EXPECT_EQ(pinned.returnable, 100 * kMiB);
  EXPECT_EQ(pinned.idle, 10 * kMiB) << "the rest of the last granule";
}

TEST(WhatIf, settings_are_ranked_by_what_they_reserve_and_those_that_run_out_come_last) {
  Recorder recorder = growing();
  const snapshot::Snapshot snapshot = recorder.take();
  const History history = history_of(snapshot);
  Surroundings surroundings;
  surroundings.capacity = 700 * kMiB;
  surroundings.total = 700 * kMiB;
  auto answers = replay_settings(history, {"", "expandable_segments:True", "max_split_size_mb:20"}, surroundings);
  ASSERT_TRUE(answers);
  EXPECT_EQ((*answers)[0].setting, "") << "in the order of the question";
  rank(*answers);
  EXPECT_EQ(answers->front().setting, "expandable_segments:True");
  for (std::size_t i = 1; i < answers->size(); ++i) EXPECT_LE((*answers)[i - 1].runs_out(), (*answers)[i].runs_out());
}

TEST(WhatIf, tuning_finds_no_worse_than_the_sensible_settings) {
  Recorder recorder = growing();
  const snapshot::Snapshot snapshot = recorder.take();
  const History history = history_of(snapshot);
  const auto tuned = tune(history, {}, [](std::size_t, std::size_t) {});
  ASSERT_TRUE(tuned);
  EXPECT_TRUE(tuned->exhaustive);
  auto sensible = replay_settings(history, sensible_settings({}), {});
  ASSERT_TRUE(sensible);
  rank(*sensible);
  EXPECT_LE(tuned->best.front().run.stats.peak_reserved, sensible->front().run.stats.peak_reserved);
}

TEST(WhatIf, a_setting_that_the_version_lacks_is_refused) {
  Surroundings old;
  old.torch = {2, 5};
  EXPECT_FALSE(conditions_of("large_segment_size_mb:64", old));
  EXPECT_TRUE(conditions_of("max_split_size_mb:64", old));
  for (const std::string& setting : sensible_settings(old)) EXPECT_TRUE(conditions_of(setting, old)) << setting;
}

TEST(WhatIf, the_drivers_own_allocator_is_a_missing_capability) {
  const auto refused = conditions_of("backend:cudaMallocAsync", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kMissing);
}

bool mentions(const std::vector<std::string>& advice, std::string_view part) {
  return std::any_of(advice.begin(), advice.end(),
                     [part](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST(Advice, garbage_collection_without_a_fraction_is_said_to_do_nothing) {
  EXPECT_TRUE(mentions(advise(test::settings("garbage_collection_threshold:0.8"), 0), "does nothing"));
  EXPECT_FALSE(mentions(advise(test::settings("garbage_collection_threshold:0.8,per_process_memory_fraction:0.9"), 0),
                        "does nothing"));
}

TEST(Advice, known_defects_and_what_expandable_segments_break_are_named_by_version) {
  EXPECT_TRUE(mentions(advise(test::settings("expandable_segments:True,max_split_size_mb:128"), 0), "193400"));
  auto old = test::settings("expandable_segments:True");
  EXPECT_FALSE(mentions(advise(old, 0), "nccl_ub"));
  old.torch = {2, 4};
  EXPECT_TRUE(mentions(advise(old, 0), "nccl_ub"));
  EXPECT_TRUE(mentions(advise(old, 0), "CUDA IPC"));
}

TEST(Advice, rounding_that_blows_up_the_largest_request_is_shown) {
  EXPECT_TRUE(mentions(advise(test::settings("roundup_power2_divisions:4"), 130 * kGiB), "160.00 GiB"));
}

}  // namespace
}  // namespace plimsoll::replay
