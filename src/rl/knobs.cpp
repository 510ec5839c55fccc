// SPDX-License-Identifier: Apache-2.0
#include "rl/knobs.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include <fmt/format.h>

#include "base/crew.h"
#include "rl/keys.h"
#include "rl/trainer_choice.h"

namespace plimsoll::rl {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(bool value) { return value ? "true" : "false"; }

class List {
 public:
  explicit List(std::vector<Knob>& knobs) : knobs_(knobs) {}
  void group(std::string name) { group_ = std::move(name); }
  void add(Settings settings, std::string says) { knobs_.push_back({group_, std::move(settings), std::move(says)}); }
  void add(const char* key, std::string value, std::string says) {
    add(Settings{{key, std::move(value)}}, std::move(says));
  }

 private:
  std::vector<Knob>& knobs_;
  std::string group_;
};

void trainer_memory_knobs(const Run& run, List& list) {
  list.group("trainer memory");
  const std::int64_t seq_len = run.packing.seq_len;
  const std::int64_t batch = run.algorithm.prompts_per_step;
  list.add("seq_len", text(std::max<std::int64_t>(64, seq_len / 2)), "half the bin");
  list.add("seq_len", text(seq_len * 2), "twice the bin");
  if (batch > 1) list.add("prompts_batch_size_for_trainer", text(batch / 2), "half the batch");
  list.add("prompts_batch_size_for_trainer", text(batch * 2), "twice the batch");
  const bool recomputes = run.trainer.recompute.granularity != job::RecomputeGranularity::kNone;
  const std::vector<lever::Change> changes = trainer_changes(run);
  for (const lever::Change& change : changes) list.add(change.settings, change.label);
  const auto is_pulled = [&changes](std::string_view id) {
    return std::any_of(changes.begin(), changes.end(),
                       [id](const lever::Change& change) { return change.lever == id; });
  };
  // Levers save memory; the other way gives it back for speed, or for other numerics.
  if (run.trainer.is_megatron()) {
    const job::Optimizer& optimizer = run.trainer.optimizer;
    if (recomputes) list.add("megatron_gradient_checkpointing", "false", "no recomputation");
    if (optimizer.distributed)
      list.add("megatron_use_distributed_optimizer", "false", "the whole optimizer on every rank");
    if (!optimizer.grad_reduce_in_fp32) list.add("megatron_grad_reduce_in_fp32", "true", "gradient buffers in fp32");
    if (optimizer.cpu_offload_fraction > 0) list.add("megatron_optimizer_cpu_offload", "false", "optimizer on the GPU");
    // Frameworks with one switch for several of Megatron's keys.
    if (!is_pulled("offload-optimizer") && optimizer.cpu_offload_fraction == 0)
      list.add({{"megatron_optimizer_cpu_offload", "true"}, {"use_precision_aware_optimizer", "true"}},
               "optimizer on the host");
    if (!is_pulled("fp8") && !run.trainer.asked.fp8)
      list.add({{"megatron_use_transformer_engine", "true"}, {"megatron_fp8", "true"}}, "FP8 products");
    list.add("weight_broadcast_free_grad_buffers", text(!run.sync.free_grad_buffers), "gradients during the gather");
    list.add({{"weight_broadcast_free_grad_buffers", "true"}, {"weight_broadcast_cpu_staging", "true"}},
             "both together");
  } else {
    if (recomputes) list.add("gradient_checkpointing", "false", "no recomputation");
    if (run.trainer.sharding.stored == job::DType::kFp32)
      list.add("model_dtype", "bf16", "shards and gathered copy in bf16");
  }
  list.add("weight_broadcast_cpu_staging", text(!run.sync.cpu_staging), "the gathered copy on the host");
  list.add("weight_broadcast_bucket_mb", text(run.sync.bucket_bytes / (1 << 20) * 4), "a larger bucket");
  list.add("pad_to_multiple_of", run.packing.pad_to_multiple_of == 256 ? "64" : "256", "padding of bins");
}

void inference_memory_knobs(const Run& run, const Evaluation& base, List& list) {
  list.group("inference memory");
  const double fraction = base.server.server.memory_fraction.value_or(0.9);
  list.add("gpu_memory_utilization", fmt::format("{:.2f}", std::max(0.1, fraction - 0.1)), "less of the GPU");
  if (fraction + 0.05 <= 0.98)
    list.add("gpu_memory_utilization", fmt::format("{:.2f}", fraction + 0.05), "more of the GPU");
  const std::int64_t length = base.server.server.max_model_len.value_or(4096);
  list.add("max_model_len", text(length * 2), "longer requests allowed");
  const std::int64_t needed = run.prompt.maximum + run.completion.maximum;
  if (needed < length) list.add("max_model_len", text(needed), "as long as a sample can be");
  list.add("inference_tensor_parallel_size", text(2 * run.server.tensor), "half as many servers, twice the size");
  list.add("kv_cache_dtype", run.server.kv == inference::KvType::kFp8 ? "auto" : "fp8", "cache in FP8");
}

// The mean of completions that are cut earlier: the distribution before the cut stays.
Settings shorter(const Run& run, std::int64_t maximum) {
  if (!run.completion.counts.empty()) return {{"max_tokens", text(maximum)}};
  const Distribution now(run.completion);
  constexpr int kSlices = 4000;
  double mean = 0;
  for (int i = 0; i < kSlices; ++i)
    mean += std::min(static_cast<double>(maximum), now.quantile((i + 0.5) / kSlices)) / kSlices;
  return {{"max_tokens", text(maximum)}, {"completion_mean", fmt::format("{:.3f}", mean)}};
}

void rollout_knobs(const Run& run, const Evaluation& base, List& list) {
  list.group("rollout");
  const job::Parallel& parallel = run.trainer.parallel;
  // A step that leaves both sides whole.
  const std::int64_t unit = std::lcm(run.gpus_per_server(), parallel.tensor * parallel.pipeline * parallel.context);
  if (!run.is_colocated()) {
    const std::int64_t serving = run.inference_gpus;
    const auto split = [&](std::int64_t count, const char* says) {
      if (count >= unit && count < run.cluster.gpus)
        list.add({{"inference_num_workers", text(count)}, {"trainer_num_workers", text(run.cluster.gpus - count)}},
                 says);
    };
    split(serving + unit, "more servers, from the trainer");
    split(serving - unit, "fewer servers");
  }
  const std::int64_t lanes =
      run.lanes.prompts_per_server > 0
          ? run.lanes.prompts_per_server
          : std::max<std::int64_t>(1, (base.loop ? base.loop->max_running : 256) / run.algorithm.group_size);
  list.add("max_concurrent_prompts_per_server", text(2 * lanes), "twice the lanes");
  if (lanes > 1) list.add("max_concurrent_prompts_per_server", text(lanes / 2), "half the lanes");
  list.add(shorter(run, std::max<std::int64_t>(1, run.completion.maximum / 2)), "half the longest completion");
  list.add("max_tokens", text(run.completion.maximum * 2), "twice the longest, same mean");
  list.add("enable_prefix_caching", text(!run.server.prefix_caching), "a group's prompt prefilled once");
}

void training_knobs(const Run& run, List& list) {
  list.group("training");
  if (run.staleness.mode == Mode::kAsync) {
    const double limit = run.staleness.limit;
    list.add("max_async_rollout", fmt::format("{:g}", limit + 2), "further ahead");
    if (limit >= 1) list.add("max_async_rollout", fmt::format("{:g}", limit - 1), "less far ahead");
    list.add("max_off_policy_steps", run.staleness.max_off_policy_steps == 1 ? "8" : "1", "older samples cancelled");
  }
  list.add("number_of_minibatches", text(2 * run.algorithm.minibatches), "more optimizer steps per batch");
  list.add("logprob_pass", text(!run.algorithm.logprob_pass), "old log-probabilities by the trainer");
  list.add("reference_pass", text(!run.algorithm.reference_pass), "a reference model");
}

void other_knobs(const Run& run, List& list) {
  list.group("other");
  list.add("enable_prompt_prefetch", text(!run.lanes.prefetch), "prompts prepared ahead");
  list.add("enable_individual_sample_lanes", text(!run.lanes.individual), "lanes by sample or by group");
  list.add("free_lane_after_generation", text(!run.lanes.free_after_generation), "lanes freed before the reward");
  list.add("discard_group_zero_advantage", text(!run.algorithm.discard_zero_advantage), "groups without advantage");
  list.add("ray_inference_placement_strategy", run.placing.inference == RayStrategy::kPack ? "SPREAD" : "PACK",
           "servers' ranks over nodes");
  list.add("ray_trainer_placement_strategy", run.placing.trainer == RayStrategy::kPack ? "SPREAD" : "PACK",
           "trainer's ranks over nodes");
}

double tokens(const Evaluation& evaluation) { return evaluation.tokens_per_second(); }

}  // namespace

std::vector<Knob> knobs_of(const Run& run, const Evaluation& base) {
  std::vector<Knob> knobs;
  List list(knobs);
  trainer_memory_knobs(run, list);
  inference_memory_knobs(run, base, list);
  rollout_knobs(run, base, list);
  training_knobs(run, list);
  other_knobs(run, list);
  return knobs;
}

namespace {

Priced price_one(const Run& draft, const Run& complete_run, const Evaluation& base, const Knob& knob,
                 const EvaluationOptions& options) {
  Priced one;
  one.knob = knob;
  for (const auto& [key, value] : knob.settings) one.was.push_back(value_text(complete_run, key));
  Run run = draft;
  run.trainer_gpus = complete_run.trainer_gpus;
  run.inference_gpus = complete_run.inference_gpus;
  Status done;
  for (const auto& [key, value] : knob.settings)
    if (done) done = set_key(run, key, document::parse_scalar(value));
  if (done) done = complete(run);
  Result<Evaluation> answer = done ? evaluate(run, options) : Result<Evaluation>{tl::make_unexpected(done.error())};
  if (!answer) {
    one.refused = answer.error().message;
    return one;
  }
  one.fits = answer->fits();
  if (!one.fits) one.problem = answer->problems.front();
  one.trainer_bytes = answer->memory.peak() - base.memory.peak();
  one.step_bytes = answer->memory.peaks.front().bytes - base.memory.peaks.front().bytes;
  one.kv_bytes = answer->server.kv_bytes - base.server.kv_bytes;
  one.requests = answer->server.max_concurrency - base.server.max_concurrency;
  one.train_seconds = answer->time.seconds - base.time.seconds;
  // Like with like: simulated both, or both in closed form, where the run is too large to simulate.
  const bool is_comparable = (answer->simulation.period > 0) == (base.simulation.period > 0);
  if (is_comparable && base.period() > 0 && tokens(base) > 0) {
    one.period = answer->period() - base.period();
    one.tokens_per_second = tokens(*answer) / tokens(base) - 1;
    one.staleness = answer->simulation.mean_staleness - base.simulation.mean_staleness;
  }
  return one;
}

}  // namespace

std::vector<Priced> price_knobs(const Run& draft, const Run& complete_run, const Evaluation& base,
                                const std::vector<Knob>& knobs, const EvaluationOptions& options,
                                const std::function<void(const std::string&)>& progress) {
  // A run that takes many events is simulated over fewer steps here, and so is what its knobs are compared with.
  constexpr std::int64_t kEventsOfKnob = 1'000'000;
  EvaluationOptions each = options;
  Evaluation compared = base;
  if (base.simulation.events > kEventsOfKnob) {
    each.simulation.most_events = kEventsOfKnob;
    if (auto again = evaluate(complete_run, each)) compared = *std::move(again);
    // Enough to see a loop that cannot start; what else a simulation of a knob says would be compared with nothing.
    constexpr std::int64_t kEventsOfStart = 20'000;
    if (!compared.simulation.too_long.empty()) each.simulation.most_events = kEventsOfStart;
  }
  std::vector<Priced> priced(knobs.size());
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  share_work(0, [&](unsigned worker) {
    for (std::size_t i = next++; i < knobs.size(); i = next++) {
      priced[i] = price_one(draft, complete_run, compared, knobs[i], each);
      ++done;
      if (worker == 0 && progress) progress(fmt::format("turned {} of {} knobs", done.load(), knobs.size()));
    }
  });
  return priced;
}

}  // namespace plimsoll::rl
