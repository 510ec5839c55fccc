// SPDX-License-Identifier: Apache-2.0
// Tapes written by hand, walked through the allocator: where the peaks are and who is alive there.
#include "memory/walk.h"

#include <gtest/gtest.h>

#include <random>

#include "base/bytes.h"

namespace plimsoll::memory {
namespace {

using step::Name;
using step::Operation;
using step::Phase;
using step::Tape;
using step::Tensor;

constexpr std::int64_t kDevice = 10 * kGiB;

// 40 MiB of weights; then 20 in forward, 60 at the loss, 50 in backward, 30 in the update.
Tape sample() {
  Tape tape(true);
  tape.enter(Phase::kModel);
  (void)tape.alloc(40 * kMiB, Name::kWeight);
  tape.enter(Phase::kForward);
  tape.at(Operation::kFc1Linear);
  Tensor kept = tape.alloc(20 * kMiB, Name::kFc1);
  tape.at(Operation::kLoss);
  tape.touch(40 * kMiB, Name::kLogits);
  tape.enter(Phase::kBackward);
  tape.at(Operation::kFc1Linear);
  tape.touch(30 * kMiB, Name::kGrad);
  tape.free(kept);
  tape.enter(Phase::kUpdate);
  tape.touch(30 * kMiB, Name::kOptimizerTemp);
  return tape;
}

TEST(Walk, the_peak_names_its_moment_and_event) {
  const Walk w = walk(sample(), {}, kDevice, true);
  EXPECT_EQ(w.peak.allocated, 100 * kMiB);
  EXPECT_EQ(w.peak.requested, 100 * kMiB);
  EXPECT_EQ(w.peak.event, 2U);
  EXPECT_EQ(w.peak.moment.phase, Phase::kForward);
  EXPECT_EQ(w.peak.moment.operation, Operation::kLoss);
  EXPECT_FALSE(w.out_of_memory);
}

TEST(Walk, every_kind_of_moment_has_its_own_peak) {
  const Walk w = walk(sample(), {}, kDevice, true);
  const auto peak_of = [&](PeakGroup group) { return w.by_group[static_cast<std::size_t>(group)].allocated / kMiB; };
  EXPECT_EQ(peak_of(PeakGroup::kConstruction), 40);
  EXPECT_EQ(peak_of(PeakGroup::kForward), 60);
  EXPECT_EQ(peak_of(PeakGroup::kLoss), 100);
  EXPECT_EQ(peak_of(PeakGroup::kEvaluation), 0);
  // 30 MiB out of the 40 that the loss left: the block is split.
  EXPECT_EQ(peak_of(PeakGroup::kBackward), 90);
  EXPECT_EQ(peak_of(PeakGroup::kUpdate), 70);
}

TEST(Walk, phases_say_their_peak_and_what_they_leave) {
  const Walk w = walk(sample(), {}, kDevice, true);
  const auto phase = [&](Phase p) { return w.by_phase[static_cast<std::size_t>(p)]; };
  EXPECT_EQ(phase(Phase::kModel).allocated_after, 40 * kMiB);
  EXPECT_EQ(phase(Phase::kForward).peak_allocated, 100 * kMiB);
  EXPECT_EQ(phase(Phase::kForward).allocated_after, 60 * kMiB);
  EXPECT_EQ(phase(Phase::kBackward).allocated_after, 40 * kMiB);
  EXPECT_EQ(phase(Phase::kUpdate).peak_allocated, 70 * kMiB);
  EXPECT_EQ(phase(Phase::kUpdate).allocated_after, 40 * kMiB);
}

// 40, 20 and 40 MiB are segments of their own; 30 MiB fit into a cached one.
TEST(Walk, reserved_memory_is_what_the_segments_take) {
  const Walk w = walk(sample(), {}, kDevice, true);
  EXPECT_EQ(w.peak_reserved, 100 * kMiB);
  EXPECT_EQ(w.driver_calls, 3);
}

TEST(Walk, what_was_cached_before_the_cache_was_emptied_serves_nobody) {
  for (const bool expandable : {false, true}) {
    allocator::Settings settings;
    settings.expandable_segments = expandable;
    for (const bool empties : {false, true}) {
      Tape tape(true);
      tape.enter(Phase::kModel);
      tape.touch(600 * kMiB, Name::kConstruction);
      if (empties) tape.empty_cache();
      tape.enter(Phase::kForward);
      (void)tape.alloc(200 * kMiB, Name::kFc1);
      (void)tape.alloc(500 * kMiB, Name::kLogits);
      const Walk w = walk(tape, settings, kDevice, true);
      EXPECT_EQ(w.peak.allocated, 700 * kMiB);
      // Half a segment that was taken for something else is too small for the second tensor.
      EXPECT_EQ(w.peak_reserved, (empties || expandable ? 700 : 1100) * kMiB) << expandable << empties;
    }
  }
}

TEST(Walk, an_unsplit_rest_counts_as_allocated_but_not_as_requested) {
  Tape tape(true);
  tape.enter(Phase::kForward);
  tape.touch(31 * kMiB, Name::kHidden);  // a segment of 32 MiB
  (void)tape.alloc(31 * kMiB, Name::kHidden);
  const Walk w = walk(tape, {}, kDevice, true);
  EXPECT_EQ(w.peak.allocated, 32 * kMiB);
  EXPECT_EQ(w.peak.requested, 31 * kMiB);
}

TEST(Walk, exactly_enough_memory_is_enough) {
  EXPECT_FALSE(walk(sample(), {}, 100 * kMiB, true).out_of_memory);
  EXPECT_TRUE(walk(sample(), {}, 100 * kMiB - 1, true).out_of_memory);
}

TEST(Walk, running_out_says_where_and_for_what) {
  const Walk w = walk(sample(), {}, 80 * kMiB, true);
  ASSERT_TRUE(w.out_of_memory);
  EXPECT_EQ(w.out_of_memory->moment.operation, Operation::kLoss);
  EXPECT_EQ(w.out_of_memory->requested, 40 * kMiB);
  EXPECT_EQ(w.out_of_memory->name, Name::kLogits);
  EXPECT_EQ(w.peak.allocated, 60 * kMiB) << "the walk ends there";
}

TEST(Walk, without_a_limit_it_says_how_much_would_be_needed) {
  const Walk w = walk(sample(), {}, 80 * kMiB, false);
  EXPECT_FALSE(w.out_of_memory);
  EXPECT_EQ(w.peak.allocated, 100 * kMiB);
}

TEST(Walk, a_memory_fraction_is_of_the_whole_device) {
  allocator::Settings settings;
  settings.fraction = 0.5;
  // 180 MiB are left for torch on a device of 200: half of the device, not of what is left.
  EXPECT_FALSE(walk(sample(), settings, 180 * kMiB, true, 200 * kMiB).out_of_memory);
  EXPECT_TRUE(walk(sample(), settings, 180 * kMiB, true, 198 * kMiB).out_of_memory);
}

TEST(Walk, a_device_that_others_fill_holds_nothing) {
  EXPECT_TRUE(walk(sample(), {}, 0, true).out_of_memory);
  EXPECT_TRUE(walk(sample(), {}, -kGiB, true).out_of_memory);
}

TEST(Walk, an_empty_tape_has_no_peak) {
  const Walk w = walk(Tape(true), {}, kDevice, true);
  EXPECT_EQ(w.peak.allocated, 0);
  EXPECT_EQ(w.peak_reserved, 0);
}

TEST(AliveAt, sums_by_name_with_the_largest_first) {
  Tape tape(true);
  (void)tape.alloc(1024, Name::kQuery);
  Tensor hidden = tape.alloc(512, Name::kHidden);
  (void)tape.alloc(4096, Name::kFc1);
  (void)tape.alloc(1024, Name::kQuery);
  tape.rename(hidden, Name::kLayerInput);
  tape.free(hidden);
  const auto before = alive_at(tape, 3);
  ASSERT_EQ(before.size(), 3U);
  EXPECT_EQ(before[0].name, Name::kFc1);
  EXPECT_EQ(before[1].name, Name::kQuery);
  EXPECT_EQ(before[1].count, 2);
  EXPECT_EQ(before[1].bytes, 2048);
  EXPECT_EQ(before[2].name, Name::kHidden);
  EXPECT_EQ(alive_at(tape, 4)[2].name, Name::kLayerInput) << "a rename moves its bytes";
  EXPECT_EQ(alive_at(tape, 5).size(), 2U);
  EXPECT_EQ(alive_at(tape, 1000).size(), 2U) << "past the end: the end";
}

TEST(AliveAt, sums_to_the_live_bytes_after_every_event) {
  std::mt19937_64 random(5);
  Tape tape(true);
  std::vector<Tensor> live;
  for (int i = 0; i < 300; ++i) {
    if (live.empty() || random() % 3 != 0) {
      live.push_back(tape.alloc(static_cast<std::int64_t>(1 + random() % 9000), static_cast<Name>(random() % 40)));
    } else {
      std::swap(live[random() % live.size()], live.back());
      tape.free(live.back());
      live.pop_back();
    }
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    sum += tape.events()[i].bytes;
    std::int64_t named = 0;
    for (const Alive& alive : alive_at(tape, static_cast<std::uint32_t>(i))) named += alive.bytes;
    ASSERT_EQ(named, sum) << i;
  }
}

TEST(PeakGroups, construction_forward_loss_backward_and_update_are_told_apart) {
  const auto group = [](Phase phase, Operation operation) { return group_of({phase, operation}); };
  EXPECT_EQ(group(Phase::kWrap, Operation::kBuild), PeakGroup::kConstruction);
  EXPECT_EQ(group(Phase::kFirstForward, Operation::kNorm1), PeakGroup::kForward);
  EXPECT_EQ(group(Phase::kForward, Operation::kHead), PeakGroup::kLoss);
  EXPECT_EQ(group(Phase::kBackward, Operation::kLoss), PeakGroup::kLoss);
  EXPECT_EQ(group(Phase::kFirstBackward, Operation::kFc2Linear), PeakGroup::kBackward);
  EXPECT_EQ(group(Phase::kUpdate, Operation::kAdam), PeakGroup::kUpdate);
  EXPECT_EQ(group(Phase::kEvaluation, Operation::kLogitsKept), PeakGroup::kEvaluation);
  for (int g = 0; g < kPeakGroups; ++g) EXPECT_FALSE(text_of(static_cast<PeakGroup>(g)).empty());
}

}  // namespace
}  // namespace plimsoll::memory
