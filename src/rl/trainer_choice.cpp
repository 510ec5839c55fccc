// SPDX-License-Identifier: Apache-2.0
#include "rl/trainer_choice.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "memory/outside.h"
#include "model/parameters.h"

namespace plimsoll::rl {

namespace {

constexpr double kFull = 0.97;  // of the GPU: the rest is what fragmentation takes before the allocator is walked

std::vector<std::int64_t> open_sizes(const Run& run, const char* key, std::vector<std::int64_t> values,
                                     std::int64_t given) {
  if (run.has(key)) return {given};
  return values;
}

struct Split {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  bool recomputes = false;
};

bool is_given(const Run& run, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return run.has(key); });
}

std::vector<Split> splits_of(const Run& run, std::int64_t gpus) {
  const job::Job& job = run.trainer;
  const bool megatron = job.is_megatron();
  const std::int64_t domain = run.cluster.nvlink_domain();
  std::vector<std::int64_t> tensors = {1};
  std::vector<std::int64_t> pipelines = {1};
  std::vector<std::int64_t> contexts = {1};
  std::vector<std::int64_t> experts = {1};
  if (megatron) {
    tensors = {1, 2, 4, 8};
    pipelines = {1, 2, 4, 8, 16};
    if (run.packing.seq_len >= 16384) contexts = {1, 2, 4};
    if (job.model.has_moe()) experts = {1, 2, 4, 8, 16, 32, 64};
  }
  tensors = open_sizes(run, "tensor_model_parallel_size", tensors, job.parallel.tensor);
  pipelines = open_sizes(run, "pipeline_model_parallel_size", pipelines, job.parallel.pipeline);
  contexts = open_sizes(run, "context_parallel_size", contexts, job.parallel.context);
  experts = open_sizes(run, "expert_model_parallel_size", experts, job.parallel.expert);
  const bool recompute_given = is_given(run, {"recompute_granularity", "gradient_checkpointing", "recompute_modules",
                                              "recompute_activations", "megatron_gradient_checkpointing"});
  std::vector<Split> splits;
  for (const std::int64_t tensor : tensors)
    for (const std::int64_t pipeline : pipelines)
      for (const std::int64_t context : contexts)
        for (const std::int64_t expert : experts) {
          const std::int64_t shared = tensor * pipeline * context;
          if (shared > gpus || gpus % shared != 0 || (tensor > domain && !run.has("tensor_model_parallel_size")))
            continue;
          if (expert > 1 && gpus / pipeline % expert != 0) continue;
          splits.push_back({tensor, pipeline, context, expert, true});
          if (!recompute_given) splits.push_back({tensor, pipeline, context, expert, false});
        }
  if (recompute_given)
    for (Split& split : splits) split.recomputes = job.recompute.granularity != job::RecomputeGranularity::kNone;
  return splits;
}

// The knobs of a split in the job and as keys; false where the framework refuses it.
bool apply(const Run& run, const Split& split, std::int64_t gpus, const Packed& packed, TrainerChoice& choice) {
  job::Job& job = choice.job;
  job = run.trainer;
  const auto set = [&](const char* key, std::int64_t value, std::int64_t& field) {
    if (field == value && !job.is_megatron()) return;
    field = value;
    if (!run.has(key)) choice.settings.emplace_back(key, std::to_string(value));
  };
  job.cluster.gpus = gpus;
  set("tensor_model_parallel_size", split.tensor, job.parallel.tensor);
  set("pipeline_model_parallel_size", split.pipeline, job.parallel.pipeline);
  if (split.context != job.parallel.context) set("context_parallel_size", split.context, job.parallel.context);
  if (job.model.has_moe() && job.is_megatron()) {
    set("expert_model_parallel_size", split.expert, job.parallel.expert);
    if (!run.has("expert_tensor_parallel_size") && split.expert > 1) {
      job.parallel.expert_tensor = 1;
      if (split.tensor > 1) choice.settings.emplace_back("expert_tensor_parallel_size", "1");
    }
  }
  if (split.tensor > 1 && job.is_megatron() && !run.has("sequence_parallel")) {
    job.parallel.sequence_parallel = job.parallel.sequence_parallel_asked = true;
    job.given.insert("sequence_parallel");
    choice.settings.emplace_back("sequence_parallel", "true");
  }
  const bool recomputed = job.recompute.granularity != job::RecomputeGranularity::kNone;
  if (split.recomputes != recomputed) {
    job.recompute = {};
    job.recompute.granularity = split.recomputes ? job::RecomputeGranularity::kFull : job::RecomputeGranularity::kNone;
    if (job.is_megatron()) {
      choice.settings.emplace_back("recompute_granularity", split.recomputes ? "full" : "none");
      if (split.recomputes) {
        choice.settings.emplace_back("recompute_method", "uniform");
        choice.settings.emplace_back("recompute_num_layers", "1");
      }
    } else {
      choice.settings.emplace_back("gradient_checkpointing", split.recomputes ? "true" : "false");
    }
  }
  const std::int64_t ranks = gpus / (split.tensor * split.pipeline * split.context);
  job.batch.accumulation = ceil_div(ceil_div(packed.bins, ranks), run.algorithm.minibatches);
  return job::complete(job).has_value();
}

}  // namespace

Result<std::int64_t> quick_peak(const Run& run, const job::Job& trainer) {
  std::int64_t highest = 0;
  for (const std::int64_t stage : {std::int64_t{0}, trainer.parallel.pipeline - 1}) {
    PLIMSOLL_TRY(peak, memory::folded_peak(trainer, stage));
    highest = std::max(highest, peak);
  }
  std::int64_t beside = 0;
  for (const memory::OutsideItem& item : memory::outside_torch(trainer)) beside += item.bytes;
  const std::int64_t elements = model::count_parameters(trainer.model).total;
  if (run.framework == Framework::kTelescope) {
    if (trainer.is_megatron()) {
      const std::int64_t here = elements / (trainer.parallel.tensor * trainer.parallel.pipeline);
      const std::int64_t optimizer = 12 * here / (trainer.optimizer.distributed ? trainer.data_parallel : 1);
      const std::int64_t gradients = (trainer.optimizer.grad_reduce_in_fp32 ? 4 : 2) * here;
      const std::int64_t copy = run.sync.cpu_staging ? 0 : 2 * elements;
      highest = std::max(highest, 2 * here + optimizer + gradients + copy + run.sync.bucket_bytes);
    } else {
      const std::int64_t stored = job::size_of(trainer.sharding.stored);
      const std::int64_t shard = elements / std::max<std::int64_t>(1, trainer.data_parallel);
      highest = std::max(highest, shard * (2 * stored + 8) + elements * stored + run.sync.bucket_bytes);
    }
  }
  return highest + beside;
}

std::optional<TrainerChoice> choose_trainer(const Run& run, std::int64_t gpus, const Packed& packed,
                                            ChoiceCounts& counts) {
  std::vector<TrainerChoice> priced;
  for (const Split& split : splits_of(run, gpus)) {
    ++counts.considered;
    TrainerChoice choice;
    if (!apply(run, split, gpus, packed, choice)) {
      ++counts.refused;
      continue;
    }
    Run on_these = {};
    on_these.algorithm = run.algorithm;
    on_these.trainer_gpus = gpus;
    auto time = trainer_time(on_these, choice.job, packed, timing::Detail::kFast);
    if (!time) {
      ++counts.refused;
      continue;
    }
    choice.time = *std::move(time);
    priced.push_back(std::move(choice));
  }
  std::stable_sort(priced.begin(), priced.end(),
                   [](const TrainerChoice& a, const TrainerChoice& b) { return a.time.seconds < b.time.seconds; });
  for (TrainerChoice& choice : priced) {
    const auto peak = quick_peak(run, choice.job);
    if (peak && static_cast<double>(*peak) <= kFull * static_cast<double>(choice.job.cluster.gpu.capacity))
      return std::move(choice);
    ++counts.too_large;
  }
  return std::nullopt;
}

}  // namespace plimsoll::rl
