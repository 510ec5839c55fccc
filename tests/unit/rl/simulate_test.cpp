// SPDX-License-Identifier: Apache-2.0
#include "rl/simulate.h"

#include <numeric>

#include "rl/support.h"

namespace plimsoll::rl {
namespace {

Loop spread() { return loop_of(constant(300), lognormal(1500, 0.8, 8000)); }

double sum(const std::vector<double>& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

TEST(Simulate, the_same_loop_gives_the_same_answer) {
  const Simulation a = simulate(spread(), {});
  const Simulation b = simulate(spread(), {});
  EXPECT_EQ(a.period, b.period);
  EXPECT_EQ(a.tokens_per_second, b.tokens_per_second);
  EXPECT_EQ(a.staleness, b.staleness);
}

TEST(Simulate, the_trainers_time_is_training_sending_and_waiting) {
  for (const double train : {1.0, 20.0, 60.0}) {
    Loop loop = spread();
    loop.train_seconds = train;
    const Simulation answer = simulate(loop, {});
    EXPECT_NEAR(answer.trainer_idle + answer.trainer_sync + train / answer.period, 1, 0.02);
    EXPECT_NEAR(sum(answer.staleness), 1, 1e-9);
  }
}

TEST(Simulate, no_sample_is_older_than_the_limit_allows) {
  for (const double limit : {0.0, 1.0, 2.0, 5.0}) {
    Loop loop = spread();
    loop.limit = limit;
    loop.discards_late = true;
    loop.train_seconds = 30;
    const Simulation answer = simulate(loop, {});
    ASSERT_EQ(answer.stuck, "");
    EXPECT_LE(answer.staleness.size(), static_cast<std::size_t>(limit) + 1) << limit;
  }
}

TEST(Simulate, a_quota_keeps_samples_as_young) {
  Loop loop = spread();
  loop.dispatch = Dispatch::kQuota;
  loop.lanes = 0;
  loop.limit = 1;
  loop.train_seconds = 60;
  const Simulation answer = simulate(loop, {});
  EXPECT_LE(answer.staleness.size(), 3U);
  EXPECT_LE(answer.mean_staleness, 1.01);
}

TEST(Simulate, a_slow_trainer_pauses_generation) {
  Loop loop = spread();
  loop.train_seconds = 100;
  const Simulation answer = simulate(loop, {});
  EXPECT_LT(answer.trainer_idle, 0.01);
  EXPECT_GT(answer.dispatch_paused, 0.3);
  EXPECT_GT(answer.server_idle, 0.3);
}

// facts rl-and-inference.md 8: it smooths, and cannot lift a persistent limit of the trainer.
TEST(Simulate, running_further_ahead_does_not_speed_up_a_slow_trainer) {
  Loop loop = spread();
  loop.train_seconds = 100;
  const Simulation two = simulate(loop, {});
  loop.limit = 6;
  const Simulation six = simulate(loop, {});
  EXPECT_NEAR(six.period / two.period, 1, 1e-3);
  EXPECT_GT(six.mean_staleness, two.mean_staleness + 3);
}

TEST(Simulate, old_samples_are_cancelled) {
  Loop loop = spread();
  loop.limit = 8;
  loop.train_seconds = 1;
  loop.max_off_policy_steps = 1;
  const Simulation answer = simulate(loop, {});
  EXPECT_GT(answer.cancelled_share, 0.05);
  loop.max_off_policy_steps = -1;
  EXPECT_EQ(simulate(loop, {}).cancelled_share, 0);
}

TEST(Simulate, nothing_that_is_kept_means_no_step) {
  Loop loop = spread();
  loop.limit = 8;
  loop.max_off_policy_steps = 0;
  loop.train_seconds = 0.01;
  loop.sync_seconds = loop.pause_seconds = 0.001;
  loop.prompts_per_step = 1;
  loop.group_size = 1;
  loop.zero_advantage = 0;
  const Simulation fast = simulate(loop, {});
  EXPECT_TRUE(fast.stuck.empty() || fast.period == 0);
}

TEST(Simulate, a_short_cache_preempts_and_computes_again) {
  Loop loop = spread();
  loop.kv_tokens = 60'000;
  const Simulation tight = simulate(loop, {});
  EXPECT_GT(tight.preemptions_per_step, 10);
  EXPECT_GT(tight.recomputed_share, 0.05);
  EXPECT_GT(tight.kv_usage, 0.8);
  EXPECT_LE(tight.kv_peak, 1);
  loop.lanes = 16;
  const Simulation fewer = simulate(loop, {});
  EXPECT_EQ(fewer.preemptions_per_step, 0);
}

TEST(Simulate, a_cache_that_holds_no_sample_is_said_so) {
  Loop loop = spread();
  loop.kv_tokens = 5000;
  EXPECT_NE(simulate(loop, {}).stuck.find("holds 5000 tokens"), std::string::npos);
}

TEST(Simulate, lanes_that_groups_hold_together_are_used_less) {
  Loop loop = loop_of(constant(300), lognormal(1500, 1, 8000));
  loop.limit = 20;
  loop.train_seconds = 1;
  const Simulation samples = simulate(loop, {});
  loop.individual_lanes = false;
  const Simulation groups = simulate(loop, {});
  EXPECT_LT(groups.mean_running, 0.8 * samples.mean_running);
  EXPECT_LT(groups.tokens_per_second, samples.tokens_per_second);
}

TEST(Simulate, lanes_that_wait_for_rewards_and_prompts_serve_less) {
  Loop loop = loop_of(constant(300), constant(1500));
  loop.limit = 20;
  loop.train_seconds = 1;
  const double free = simulate(loop, {}).tokens_per_second;
  loop.reward_seconds = 10;
  const double hidden = simulate(loop, {}).tokens_per_second;
  loop.free_after_generation = false;
  const double held = simulate(loop, {}).tokens_per_second;
  loop.free_after_generation = true;
  loop.reward_seconds = 0;
  loop.prompt_seconds = 10;
  const double unprepared = simulate(loop, {}).tokens_per_second;
  EXPECT_NEAR(hidden / free, 1, 0.02);
  EXPECT_LT(held, 0.8 * free);
  EXPECT_NEAR(unprepared / held, 1, 0.03);
}

TEST(Simulate, servers_that_run_empty_before_an_update_lose_time) {
  Loop loop = spread();
  loop.dispatch = Dispatch::kQuota;
  loop.lanes = 0;
  loop.limit = 2;
  loop.train_seconds = 1;
  const Simulation in_flight = simulate(loop, {});
  loop.in_flight_updates = false;
  const Simulation drained = simulate(loop, {});
  EXPECT_LT(drained.tokens_per_second, 0.8 * in_flight.tokens_per_second);
}

TEST(Simulate, updates_after_several_steps_pause_less_often) {
  Loop loop = spread();
  loop.dispatch = Dispatch::kQuota;
  loop.lanes = 0;
  loop.limit = 1;
  loop.train_seconds = 30;
  loop.sync_seconds = loop.pause_seconds = 20;
  const Simulation each = simulate(loop, {});
  loop.sync_every = 4;
  const Simulation fourth = simulate(loop, {});
  EXPECT_LT(fourth.period, each.period);
}

TEST(Simulate, prefix_caching_prefills_a_prompt_once) {
  Loop loop = loop_of(constant(4000), constant(500));
  loop.limit = 20;
  loop.train_seconds = 1;
  const double without = simulate(loop, {}).tokens_per_second;
  loop.prefix_caching = true;
  EXPECT_GT(simulate(loop, {}).tokens_per_second, 1.5 * without);
}

TEST(Simulate, a_timeline_covers_the_run) {
  SimulationOptions options;
  options.timeline = true;
  const Simulation answer = simulate(spread(), options);
  ASSERT_FALSE(answer.spans.empty());
  ASSERT_FALSE(answer.load.empty());
  double trained = 0;
  for (const Span& span : answer.spans) {
    EXPECT_LE(span.begin, span.end);
    if (span.kind == SpanKind::kTrain) trained += span.end - span.begin;
  }
  EXPECT_NEAR(trained, 5.0 * 42, 6);  // 32 steps, a warm-up of 8 and 2 batches ahead
}

}  // namespace
}  // namespace plimsoll::rl
