// SPDX-License-Identifier: Apache-2.0
// Who holds memory, what it was for, what grows, and what two recordings differ in.
#include "replay/attribution.h"

#include "replay/difference.h"
#include "replay/leaks.h"
#include "replay/run.h"
#include "support.h"

namespace plimsoll::replay {
namespace {

using test::history_of;
using test::Recorder;

struct Stacks {
  std::uint32_t init, forward, backward, optimizer;
};

Stacks stacks(Recorder& r) {
  return {r.stack("__init__", "/home/user/model.py", 10), r.stack("forward", "/home/user/model.py", 20),
          r.stack("backward", "/home/user/function.py", 30), r.stack("step", "/lib/torch/optim/adam.py", 40)};
}

constexpr std::int64_t kParameter = 40 * kMiB;
constexpr std::int64_t kActivation = 30 * kMiB;
constexpr std::int64_t kGradient = 41 * kMiB;
constexpr std::int64_t kState = 80 * kMiB;

// Training as an optimizer with set_to_none does it; `leak` objects of the forward pass are never freed.
void train(Recorder& r, int steps, int leaks_per_step, std::int64_t activation = kActivation) {
  const Stacks s = stacks(r);
  const std::uint32_t kept = leaks_per_step > 0 ? r.stack("append", "/home/user/metrics.py", 5) : 0;
  r.alloc(kParameter, s.init);
  for (int step = 0; step < steps; ++step) {
    const int a = r.alloc(activation, s.forward);
    for (int i = 0; i < leaks_per_step; ++i) r.alloc(3 * kMiB, kept);
    const int temporary = r.alloc(35 * kMiB, s.backward);
    const int g = r.alloc(kGradient, s.backward);
    r.free(temporary, s.backward);
    r.free(a, s.backward);
    r.annotate("Optimizer.step#AdamW.step", true);
    if (step == 0) r.alloc(kState, s.optimizer);
    r.free(r.alloc(5 * kMiB, s.optimizer), s.optimizer);
    r.annotate("Optimizer.step#AdamW.step", false);
    r.free(g);
  }
}

std::int64_t bytes_of(const PeakReport& report, Category category) {
  return report.categories[static_cast<std::size_t>(category)].bytes;
}

TEST(Attribution, every_object_alive_at_the_peak_has_its_category_and_they_sum_to_it) {
  Recorder r;
  train(r, 4, 0);
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const Attribution attribution(history);
  EXPECT_EQ(attribution.optimizer_steps().size(), 4U);
  const auto result = run(history, {});
  const PeakReport report = report_peak(history, attribution, result.peak_allocated_op);
  EXPECT_EQ(bytes_of(report, Category::kParameter), kParameter);
  EXPECT_EQ(bytes_of(report, Category::kOptimizerState), kState);
  EXPECT_EQ(bytes_of(report, Category::kActivation), kActivation);
  EXPECT_EQ(bytes_of(report, Category::kGradient), kGradient);
  EXPECT_EQ(bytes_of(report, Category::kTemporary), 35 * kMiB);
  EXPECT_EQ(bytes_of(report, Category::kUnattributed), 0);
  std::int64_t sum = 0;
  for (const Group& group : report.stacks) sum += group.bytes;
  EXPECT_EQ(sum, report.requested);
  EXPECT_EQ(report.requested, result.stats.peak_requested);
}

TEST(Attribution, without_stacks_and_steps_nothing_is_claimed) {
  Recorder r;
  r.alloc(50 * kMiB);
  r.free(r.alloc(20 * kMiB));
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const PeakReport report = report_peak(history, Attribution(history), run(history, {}).peak_allocated_op);
  EXPECT_EQ(bytes_of(report, Category::kUnattributed), report.requested);
}

TEST(Leaks, what_grows_with_every_step_is_found_with_its_stack_and_rate) {
  Recorder r;
  train(r, 10, 2);
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const LeakReport report = find_leaks(history, Attribution(history));
  EXPECT_TRUE(report.by_optimizer);
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].per_step, 6 * kMiB);
  EXPECT_EQ(report.growth_per_step, 6 * kMiB);
  EXPECT_EQ(snapshot.text(snapshot.frames[snapshot.stack_frames[snapshot.stacks[report.leaks[0].stack].first]].name),
            "append");
}

TEST(Leaks, steady_training_has_none) {
  Recorder r;
  train(r, 10, 0);
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  EXPECT_TRUE(find_leaks(history, Attribution(history)).leaks.empty());
}

TEST(Leaks, a_short_history_is_not_judged) {
  Recorder r;
  train(r, 1, 1);
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  EXPECT_LT(find_leaks(history, Attribution(history)).leaks.size(), 1U);
}

// Forty layers of a forward pass that keep 64 MiB each and drop 24 MiB of temporaries, without stacks.
TEST(Leaks, one_forward_pass_is_no_leak) {
  Recorder r;
  for (int layer = 0; layer < 40; ++layer) {
    r.alloc(64 * kMiB);
    r.free(r.alloc(24 * kMiB));
  }
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const LeakReport report = find_leaks(history, Attribution(history));
  EXPECT_EQ(report.steps, 0U);
  EXPECT_TRUE(report.leaks.empty());
}

// The same layers in steps that drop what they kept, but for 16 MiB.
TEST(Leaks, steps_without_stacks_are_told_by_their_rounds) {
  Recorder r;
  for (int step = 0; step < 16; ++step) {
    std::vector<int> kept;
    for (int layer = 0; layer < 10; ++layer) {
      kept.push_back(r.alloc(64 * kMiB));
      r.free(r.alloc(24 * kMiB));
    }
    for (const int object : kept) r.free(object);
    r.alloc(16 * kMiB);
  }
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const LeakReport report = find_leaks(history, Attribution(history));
  EXPECT_FALSE(report.by_optimizer);
  ASSERT_EQ(report.leaks.size(), 1U);
  EXPECT_EQ(report.leaks[0].object_bytes, 16 * kMiB);
}

TEST(Difference, the_origin_that_grew_is_first_and_rows_sum_to_the_change) {
  Recorder before;
  train(before, 3, 0);
  Recorder after;
  train(after, 3, 0, 50 * kMiB);
  const snapshot::Snapshot a = before.take();
  const snapshot::Snapshot b = after.take();
  const History history_a = history_of(a);
  const History history_b = history_of(b);
  const Attribution attribution_a(history_a);
  const Attribution attribution_b(history_b);
  const PeakDifference difference = compare_peaks({&history_a, &attribution_a, run(history_a, {}).peak_allocated_op},
                                                  {&history_b, &attribution_b, run(history_b, {}).peak_allocated_op});
  ASSERT_FALSE(difference.origins.empty());
  EXPECT_EQ(difference.origins[0].delta(), 20 * kMiB);
  EXPECT_EQ(difference.origins[0].text, "model.py:20 forward");
  for (const auto* rows : {&difference.origins, &difference.sizes, &difference.categories}) {
    std::int64_t sum = 0;
    for (const DifferenceRow& row : *rows) sum += row.delta();
    EXPECT_EQ(sum, difference.requested_b - difference.requested_a);
  }
  EXPECT_EQ(difference.categories[static_cast<std::size_t>(Category::kActivation)].delta(), 20 * kMiB);
}

TEST(Difference, a_recording_does_not_differ_from_itself) {
  Recorder r;
  train(r, 3, 1);
  const snapshot::Snapshot snapshot = r.take();
  const History history = history_of(snapshot);
  const Attribution attribution(history);
  const PeakOf peak{&history, &attribution, run(history, {}).peak_allocated_op};
  EXPECT_TRUE(compare_peaks(peak, peak).origins.empty());
}

}  // namespace
}  // namespace plimsoll::replay
