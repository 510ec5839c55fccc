// SPDX-License-Identifier: Apache-2.0
// The closed form against the simulation.
#include "rl/balance.h"

#include <cmath>

#include "rl/simulate.h"
#include "rl/support.h"

namespace plimsoll::rl {
namespace {

double off(const Loop& loop) {
  const Simulation simulation = simulate(loop, {});
  EXPECT_EQ(simulation.stuck, "");
  return std::abs(simulation.tokens_per_second / balance(loop).tokens_per_second - 1);
}

TEST(ThoroughBalance, simulation_and_closed_form_agree_for_constant_lengths) {
  for (const double prompt : {50.0, 300.0, 2000.0})
    for (const double completion : {200.0, 1500.0, 6000.0})
      for (const double train : {1.0, 8.0, 30.0, 120.0})
        for (const std::int64_t lanes : {16, 128}) {
          Loop loop = loop_of(constant(prompt), constant(completion));
          loop.train_seconds = train;
          loop.lanes = lanes;
          loop.kv_tokens = 4e6;  // all at their longest at once fit
          EXPECT_LE(off(loop), 0.01) << prompt << ' ' << completion << ' ' << train << ' ' << lanes;
        }
}

TEST(Balance, simulation_and_closed_form_agree_when_generation_and_training_take_turns) {
  for (const double completion : {500.0, 4000.0})
    for (const double train : {1.0, 30.0}) {
      Loop loop = loop_of(constant(300), constant(completion));
      loop.dispatch = Dispatch::kQuota;
      loop.limit = 0;
      loop.lanes = 0;
      loop.kv_tokens = 4e6;
      loop.train_seconds = train;
      EXPECT_LE(off(loop), 0.01) << completion << ' ' << train;
      loop.dispatch = Dispatch::kBatch;
      loop.limit = 1;
      loop.in_flight_updates = false;
      EXPECT_LE(off(loop), 0.01) << completion << ' ' << train << " one step off";
    }
}

TEST(Balance, a_spread_of_lengths_costs_what_the_longer_contexts_cost) {
  Loop loop = loop_of(constant(300), lognormal(1500, 0.8, 8000));
  loop.limit = 50;  // nothing is late
  EXPECT_LE(off(loop), 0.03);
  EXPECT_GT(balance(loop).mean_context, 300 + 1500 / 2.0);
}

TEST(Balance, a_quota_bounds_what_is_in_flight) {
  for (const double limit : {1.0, 3.0}) {
    Loop loop = loop_of(constant(300), lognormal(1500, 0.8, 8000));
    loop.dispatch = Dispatch::kQuota;
    loop.lanes = 0;
    loop.limit = limit;
    EXPECT_LE(off(loop), 0.35) << limit;
    EXPECT_LT(balance(loop).concurrency, loop.max_running);
  }
}

TEST(Balance, the_longest_sample_decides_a_synchronous_step) {
  Loop loop = loop_of(constant(300), lognormal(1500, 0.8, 8000));
  loop.dispatch = Dispatch::kQuota;
  loop.limit = 0;
  loop.lanes = 0;
  EXPECT_LE(off(loop), 0.05);
  EXPECT_EQ(balance(loop).limit, Limit::kTail);
}

TEST(Balance, late_groups_are_counted) {
  Loop loop = loop_of(constant(300), lognormal(1500, 1, 8000));
  loop.discards_late = true;
  for (const double limit : {1.0, 2.0, 4.0}) {
    loop.limit = limit;
    EXPECT_LE(off(loop), 0.25) << limit;
  }
  const double two = balance(loop).tokens_per_second;
  loop.limit = 1;
  EXPECT_LT(balance(loop).tokens_per_second, two);
}

TEST(Balance, the_cache_bounds_what_runs) {
  Loop loop = loop_of(constant(300), constant(1500));
  loop.kv_tokens = 100'000;
  const Balance answer = balance(loop);
  EXPECT_LT(answer.concurrency, 100'000 / 1050.0);
  EXPECT_GT(answer.concurrency, 0.7 * 100'000 / 1050.0);
  EXPECT_EQ(answer.limit, Limit::kKvCache);
}

TEST(Balance, dropped_groups_cost_generation_and_not_training) {
  Loop loop = loop_of(constant(300), constant(1500));
  loop.train_seconds = 1;
  const double before = balance(loop).generate;
  loop.zero_advantage = 0.5;
  EXPECT_NEAR(balance(loop).generate, 2 * before, 1e-9);
  EXPECT_LE(off(loop), 0.05);
}

}  // namespace
}  // namespace plimsoll::rl
