// SPDX-License-Identifier: Apache-2.0
#include "rl/observe/metric_names.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::rl {

namespace {

constexpr auto kVerl = Framework::kVerl;
constexpr auto kNemo = Framework::kNemoRl;
constexpr auto kPrime = Framework::kPrimeRl;
constexpr auto kOpen = Framework::kOpenRlhf;
constexpr auto kScope = Framework::kTelescope;

const MetricName kNames[] = {
    // verl: the trainers of verl/trainer/ppo and verl/experimental/fully_async_policy.
    {"timing_s/step", Meaning::kStep, kVerl},
    {"timing_s/gen", Meaning::kGeneration, kVerl},
    {"timing_s/old_log_prob", Meaning::kTrain, kVerl},
    {"timing_s/ref", Meaning::kTrain, kVerl},
    {"timing_s/values", Meaning::kTrain, kVerl},
    {"timing_s/adv", Meaning::kTrain, kVerl},
    {"timing_s/update_critic", Meaning::kTrain, kVerl},
    {"timing_s/update_actor", Meaning::kTrain, kVerl},
    {"timing_s/update_weights", Meaning::kSync, kVerl},
    {"timing_s/sync_rollout_weights", Meaning::kSync, kVerl},
    {"timing_s/param_sync", Meaning::kSync, kVerl},
    {"timing_s/reward", Meaning::kReward, kVerl},
    {"trainer/idle_ratio", Meaning::kWaitShare, kVerl},
    {"rollouter/idle_ratio", Meaning::kPausedShare, kVerl},
    {"agent_loop/generate_sequences/mean", Meaning::kLaneGenerate, kVerl},
    {"agent_loop/tool_calls/mean", Meaning::kLaneTools, kVerl},
    {"agent_loop/num_preempted/max", Meaning::kPreempted, kVerl},
    {"fully_async/count/dropped_stale_samples", Meaning::kStale, kVerl},
    // NeMo-RL: nemo_rl/algorithms/grpo.py, the timers under timing/train.
    {"timing/train/total_step_time", Meaning::kStep, kNemo},
    {"timing/train/exposed_generation", Meaning::kWait, kNemo},
    {"timing/train/generation", Meaning::kGeneration, kNemo},
    {"timing/train/policy_training", Meaning::kTrain, kNemo},
    {"timing/train/policy_and_reference_logprobs", Meaning::kTrain, kNemo},
    {"timing/train/value_training", Meaning::kTrain, kNemo},
    {"timing/train/weight_sync", Meaning::kSync, kNemo},
    {"timing/train/prepare_for_generation/transfer_and_update_weights", Meaning::kSync, kNemo},
    {"timing/train/reward_calculation", Meaning::kReward, kNemo},
    {"idle/generation_limit_pause", Meaning::kPaused, kNemo},
    {"performance/training_worker_idle_time_ratio", Meaning::kWaitShare, kNemo},
    {"avg_trajectory_age", Meaning::kOffPolicy, kNemo},
    // prime-rl: trainer/rl/train.py and orchestrator/orchestrator.py.
    {"time/step", Meaning::kStep, kPrime},
    {"time/wait_for_batch", Meaning::kWait, kPrime},
    {"time/forward_backward", Meaning::kTrain, kPrime},
    {"time/broadcast_weights", Meaning::kSync, kPrime},
    {"time/wait_for_policy", Meaning::kPaused, kPrime},
    {"time/wait_for_ckpt", Meaning::kPaused, kPrime},
    {"off_policy/mean", Meaning::kOffPolicy, kPrime},
    {"off_policy/dropped", Meaning::kStale, kPrime},
    {"inference/agg/kv_cache_usage_perc/mean", Meaning::kUsage, kPrime},
    {"inference/agg/num_requests_running/mean", Meaning::kRunning, kPrime},
    {"inference/agg/num_requests_waiting/mean", Meaning::kWaiting, kPrime},
    // OpenRLHF: trainer/ppo_trainer.py and ppo_trainer_async.py.
    {"timing/step_total", Meaning::kStep, kOpen},
    {"timing/generation", Meaning::kGeneration, kOpen},
    {"timing/make_experience", Meaning::kTrain, kOpen},
    {"timing/ppo_train", Meaning::kTrain, kOpen},
    {"timing/broadcast", Meaning::kSync, kOpen},
    // Telescope: orchestrator/loggers/vllm_metrics_logger.py.
    {"cache_usage", Meaning::kUsage, kScope},
    {"requests_running", Meaning::kRunning, kScope},
    {"requests_waiting", Meaning::kWaiting, kScope},
    {"preemptions_total", Meaning::kPreemptions, kScope},
    // Engines.
    {"vllm:kv_cache_usage_perc", Meaning::kUsage, std::nullopt},
    {"vllm:gpu_cache_usage_perc", Meaning::kUsage, std::nullopt},
    {"vllm:num_requests_running", Meaning::kRunning, std::nullopt},
    {"vllm:num_requests_waiting", Meaning::kWaiting, std::nullopt},
    {"vllm:num_preemptions_total", Meaning::kPreemptions, std::nullopt},
    {"vllm:num_preemptions", Meaning::kPreemptions, std::nullopt},
    {"sglang:token_usage", Meaning::kUsage, std::nullopt},
    {"sglang:num_running_reqs", Meaning::kRunning, std::nullopt},
    {"sglang:num_queue_reqs", Meaning::kWaiting, std::nullopt},
    {"sglang:num_retracted_requests_total", Meaning::kPreemptions, std::nullopt},
};

void add_to(std::optional<double>& sum, double value) { sum = sum.value_or(0) + value; }

double share_of(double part, double whole) { return std::clamp(part / whole, 0.0, 1.0); }

// Generation and training in turns: neither hides the other.
void add_phases(const StepValues& step, const Place& place, Measures& measures) {
  measures.generation_phase.add(share_of(*step.generation, *step.step), place);
  if (step.train) measures.training_phase.add(share_of(*step.train, *step.step), place);
}

// A step shorter than its parts: generation ran beside the trainer. What the trainer did not work it waited, and
// what generation did not need it stood still.
void add_overlapped(const StepValues& step, const Place& place, Measures& measures) {
  const double worked = *step.train + step.sync.value_or(0);
  measures.trainer_wait.add(share_of(*step.step - worked, *step.step), place);
  measures.rollout_paused.add(share_of(*step.step - *step.generation, *step.step), place);
}

}  // namespace

const MetricName* find_metric(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const MetricName*> map;
    for (const MetricName& row : kNames) map.emplace(row.name, &row);
    return map;
  }();
  constexpr int kMostSegments = 8;
  for (int i = 0; i < kMostSegments; ++i) {
    if (const auto found = index.find(name); found != index.end()) return found->second;
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) break;
    name.remove_prefix(slash + 1);
  }
  return nullptr;
}

void StepValues::set(Meaning meaning, double value) {
  any = true;
  switch (meaning) {
    case Meaning::kStep:
      step = value;
      break;
    case Meaning::kWait:
      add_to(wait, value);
      break;
    case Meaning::kWaitShare:
      wait_share = value;
      break;
    case Meaning::kPaused:
      add_to(paused, value);
      break;
    case Meaning::kPausedShare:
      paused_share = value;
      break;
    case Meaning::kSync:
      add_to(sync, value);
      break;
    case Meaning::kGeneration:
      generation = value;
      break;
    case Meaning::kTrain:
      add_to(train, value);
      break;
    case Meaning::kReward:
      add_to(reward, value);
      break;
    case Meaning::kLaneGenerate:
      lane_generate = value;
      break;
    case Meaning::kLaneTools:
      lane_tools = value;
      break;
    case Meaning::kUsage:
      server.usage = value;
      break;
    case Meaning::kRunning:
      server.running = value;
      break;
    case Meaning::kWaiting:
      server.waiting = value;
      break;
    case Meaning::kPreemptions:
    case Meaning::kPreempted:
    case Meaning::kStale:
    case Meaning::kOffPolicy:
      break;
  }
}

void add_metric(const MetricName& metric, double value, const std::string& series, const Place& place, StepValues& step,
                Measures& measures) {
  if (!(value >= 0 && value < 1e15)) return;  // also what is not a number
  const bool is_share = metric.meaning == Meaning::kWaitShare || metric.meaning == Meaning::kPausedShare ||
                        metric.meaning == Meaning::kUsage;
  if (is_share && value > 1) return;
  if (metric.framework) measures.vote(*metric.framework);
  step.set(metric.meaning, value);
  if (metric.meaning == Meaning::kPreemptions) measures.preemptions.add(series, value, place);
  if (metric.meaning == Meaning::kPreempted && value > 0) measures.preempted.add(value, place);
  if (metric.meaning == Meaning::kStale) measures.stale.add(series, value, place);
  if (metric.meaning == Meaning::kOffPolicy) measures.off_policy.add(value, place);
}

void add_step(const StepValues& step, const Place& place, Measures& measures) {
  measures.add_sample(step.server, place);
  if (step.lane_generate && step.lane_tools && *step.lane_generate + *step.lane_tools > 0)
    measures.environment.add(*step.lane_tools / (*step.lane_generate + *step.lane_tools), place);
  if (step.wait_share) measures.trainer_wait.add(*step.wait_share, place);
  if (step.paused_share) measures.rollout_paused.add(*step.paused_share, place);
  if (!step.step || !(*step.step > 0)) return;
  const double whole = *step.step;
  if (step.wait && !step.wait_share) measures.trainer_wait.add(share_of(*step.wait, whole), place);
  if (step.paused && !step.paused_share) measures.rollout_paused.add(share_of(*step.paused, whole), place);
  if (step.sync) measures.weight_sync.add(share_of(*step.sync, whole), place);
  const bool says_waiting = step.wait || step.wait_share || step.paused || step.paused_share;
  if (step.generation && step.train && !says_waiting) {
    constexpr double kRounding = 0.98;
    const double parts = *step.generation + *step.train + step.sync.value_or(0);
    if (whole < kRounding * parts)
      add_overlapped(step, place, measures);
    else
      add_phases(step, place, measures);
  }
  if (step.reward && !step.lane_tools) measures.environment.add(share_of(*step.reward, whole), place);
}

}  // namespace plimsoll::rl
