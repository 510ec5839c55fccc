// SPDX-License-Identifier: Apache-2.0
#include "timing/pipeline.h"

#include <gtest/gtest.h>

namespace plimsoll::timing {
namespace {

PipelineTimes even(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches) {
  PipelineTimes t;
  t.stages = stages;
  t.chunks = chunks;
  t.micro_batches = micro_batches;
  t.group = stages;
  t.forward.assign(static_cast<std::size_t>(stages * chunks), 1.0 / static_cast<double>(chunks));
  t.backward.assign(static_cast<std::size_t>(stages * chunks), 2.0 / static_cast<double>(chunks));
  return t;
}

// facts step-time.md 7, PP: bubble (p-1)(F+B) over v.
TEST(Pipeline, of_even_stages_has_the_textbook_bubble) {
  for (const std::int64_t p : {1, 2, 4, 8})
    for (const std::int64_t v : {1, 2, 5})
      for (const std::int64_t groups : {1, 2, 3, 16}) {
        if (p == 1 && v > 1) continue;
        const PipelineTimes t = even(p, v, groups * p);
        const double expected =
            3.0 * static_cast<double>(groups * p) + 3.0 * static_cast<double>(p - 1) / static_cast<double>(v);
        EXPECT_NEAR(simulate(t), expected, 1e-9) << p << ' ' << v << ' ' << groups;
        EXPECT_NEAR(closed_form(t), expected, 1e-9) << p << ' ' << v << ' ' << groups;
      }
}

TEST(Pipeline, with_fewer_micro_batches_than_stages_still_runs) {
  EXPECT_NEAR(simulate(even(8, 1, 3)), 3.0 * (3 + 7), 1e-9);
}

TEST(Pipeline, is_paced_by_its_slowest_rank) {
  PipelineTimes t = even(4, 1, 64);
  t.forward[3] *= 1.5;
  t.backward[3] *= 1.5;
  EXPECT_EQ(slowest(t), 3);
  EXPECT_NEAR(simulate(t), 64 * 4.5 + 3 * 3, 1e-9);
  EXPECT_NEAR(closed_form(t), simulate(t), 1e-9);
}

TEST(Pipeline, long_runs_are_extrapolated_exactly) {
  PipelineTimes t = even(4, 2, 96);
  t.forward[0] = 0.8;
  t.backward[7] = 1.3;
  t.hop = 0.05;
  PipelineTimes longer = t;
  longer.micro_batches = 192;
  // Every further group of micro-batches costs the slowest rank's work.
  const double per_micro_batch = busy(t, slowest(t)) / 96;
  EXPECT_NEAR(simulate(longer) - simulate(t), 96 * per_micro_batch, 0.02 * 96 * per_micro_batch);
}

TEST(Pipeline, never_ends_before_its_slowest_rank_has_computed) {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    PipelineTimes t = even(2 + static_cast<std::int64_t>(seed % 5), 1 + static_cast<std::int64_t>(seed % 3), 12);
    t.micro_batches = 3 * t.stages;
    std::uint64_t state = seed * 2654435761U;
    for (double& seconds : t.forward)
      seconds *= 0.5 + static_cast<double>((state = state * 6364136223846793005U + 1) >> 40) / 1.6e7;
    EXPECT_GE(simulate(t), busy(t, slowest(t)) - 1e-9) << seed;
  }
}

TEST(Pipeline, messages_delay_it_less_when_they_overlap) {
  PipelineTimes t = even(4, 2, 32);
  const double without = simulate(t);
  t.hop = 0.1;
  const double hidden = simulate(t);
  t.overlapped = false;
  EXPECT_GT(hidden, without);
  EXPECT_GT(simulate(t), hidden);
}

TEST(Pipeline, gpipe_takes_as_long_as_1f1b_with_even_stages) {
  PipelineTimes t = even(4, 1, 8);
  const double alternating = simulate(t);
  t.gpipe = true;
  EXPECT_NEAR(simulate(t), alternating, 1e-9);
}

}  // namespace
}  // namespace plimsoll::timing
