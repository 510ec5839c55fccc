// SPDX-License-Identifier: Apache-2.0
// From a run to the rates and rules of its loop: each framework's own rule of staleness (facts rl-and-inference.md 3).
#include <algorithm>

#include "rl/evaluate.h"

namespace plimsoll::rl {

namespace {

// Of the cache, where the loop chooses its lanes itself (facts rl-and-inference.md 7).
constexpr double kTargetUsage = 0.7;

bool is_spread(RayStrategy strategy) {
  return strategy == RayStrategy::kSpread || strategy == RayStrategy::kStrictSpread;
}

void set_rules(const Run& run, Loop& loop) {
  loop.limit = run.staleness.limit;
  loop.max_off_policy_steps = run.staleness.max_off_policy_steps;
  loop.in_flight_updates = run.staleness.in_flight_updates;
  loop.sync_every = run.staleness.sync_every;
  loop.discards_late = run.framework == Framework::kTelescope;
  loop.queue_counts = run.framework == Framework::kPrimeRl;
  if (run.staleness.mode == Mode::kOneStepOff) {
    loop.dispatch = Dispatch::kBatch;
    loop.limit = 1;
    loop.in_flight_updates = false;
    return;
  }
  switch (run.framework) {
    case Framework::kTelescope:
      loop.dispatch = Dispatch::kLevel;
      return;
    case Framework::kPrimeRl:
    case Framework::kGeneric:
      loop.dispatch = run.staleness.mode == Mode::kSync ? Dispatch::kQuota : Dispatch::kLevel;
      return;
    case Framework::kVerl:
    case Framework::kNemoRl:
      loop.dispatch = Dispatch::kQuota;
      return;
    case Framework::kOpenRlhf:
      loop.dispatch = run.staleness.mode == Mode::kSync ? Dispatch::kQuota : Dispatch::kBatch;
      return;
  }
}

}  // namespace

inference::Server placed_server(const Run& run, std::int64_t held_by_trainer) {
  inference::Server server = run.server;
  server.held_by_others = held_by_trainer;
  server.gpus_per_node = run.cluster.gpus_per_node;
  const bool several_nodes = run.cluster.gpus > run.cluster.gpus_per_node;
  if (several_nodes && is_spread(run.placing.inference)) {
    server.gpus_per_node = 1;
    server.gpu.rates.rack_domain = 0;
  }
  return server;
}

void set_trainer(Loop& loop, const TrainerTime& time, const SyncTime& sync) {
  loop.train_seconds = time.seconds;
  const double lost = time.packed.lost_tokens;
  loop.trained_share = time.packed.tokens > 0 ? time.packed.tokens / (time.packed.tokens + lost) : 1;
  loop.sync_seconds = sync.seconds();
  loop.pause_seconds = sync.pause();
}

Loop make_loop(const Run& run, const inference::ServerMemory& memory, const TrainerTime& time, const SyncTime& sync) {
  Loop loop{.speed = inference::Speed(memory.server),
            .prompt = Distribution(run.prompt),
            .completion = Distribution(run.completion)};
  loop.servers = run.servers();
  loop.max_running = memory.server.max_num_seqs.value_or(256);
  loop.kv_tokens = static_cast<double>(memory.kv_tokens);
  loop.block = static_cast<double>(memory.server.block_size.value_or(16));
  loop.prefill_budget = static_cast<double>(memory.server.max_num_batched_tokens.value_or(8192));
  loop.prefix_caching = run.server.prefix_caching;
  loop.longest = std::min(run.prompt.maximum + run.completion.maximum, memory.server.max_model_len.value_or(1 << 30));
  loop.group_size = run.algorithm.group_size;
  loop.prompts_per_step = run.algorithm.prompts_per_step;
  loop.zero_advantage = run.algorithm.discard_zero_advantage ? run.algorithm.zero_advantage_share : 0;
  loop.reward_seconds = run.algorithm.reward_seconds;
  loop.prompt_seconds = run.lanes.prefetch ? 0 : run.algorithm.prompt_seconds;
  loop.individual_lanes = run.lanes.individual;
  loop.free_after_generation = run.lanes.free_after_generation;
  set_rules(run, loop);
  set_trainer(loop, time, sync);
  loop.colocated = run.is_colocated();
  loop.lanes = run.lanes_per_server();
  if (loop.lanes == 0 && loop.dispatch == Dispatch::kLevel) {
    const double room = kTargetUsage * kv_concurrency(loop);
    loop.lanes = std::clamp(static_cast<std::int64_t>(room), std::int64_t{1}, loop.max_running);
  }
  return loop;
}

}  // namespace plimsoll::rl
