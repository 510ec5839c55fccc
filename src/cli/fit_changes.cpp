// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_changes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "timing/step_time.h"

namespace plimsoll::cli {

namespace {

bool has_dense_layer(const model::Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const model::Layer& layer) { return !layer.ffn.is_moe(); });
}

std::vector<std::string> recomputed_modules(const job::Recompute& recompute) {
  std::vector<std::string> names;
  if (recompute.granularity == job::RecomputeGranularity::kSelective) {
    const job::RecomputeModules& modules = recompute.modules;
    if (modules.core_attn) names.emplace_back("core_attn");
    if (modules.layernorm) names.emplace_back("layernorm");
    if (modules.mla_up_proj) names.emplace_back("mla_up_proj");
    if (modules.mlp) names.emplace_back("mlp");
    if (modules.moe) names.emplace_back("moe");
    if (modules.moe_act) names.emplace_back("moe_act");
    if (modules.shared_experts) names.emplace_back("shared_experts");
  }
  return names;
}

// What keeps the sequences of a step when micro-batches times data-parallel ranks are divided by `factor`.
void keep_global_batch(const job::Job& job, std::int64_t factor, Settings& settings) {
  const job::Batch& batch = job.batch;
  if (batch.accumulation)
    settings.emplace_back("gradient_accumulation_steps", std::to_string(job.micro_batches * factor));
  else if (!batch.global_batch)
    settings.emplace_back("global_batch_size",
                          std::to_string(batch.micro_batch * job.data_parallel * job.micro_batches));
}

// The modules that are recomputed today, and one more.
Change with_recompute_of(const job::Recompute& recompute, const std::string& module) {
  std::vector<std::string> names = recomputed_modules(recompute);
  names.push_back(module);
  return {fmt::format("recompute {}", module),
          {{"recompute_granularity", "selective"}, {"recompute_modules", fmt::format("[{}]", join(names, ","))}}};
}

void add_megatron_changes(const job::Job& job, std::vector<Change>& changes) {
  const job::Parallel& parallel = job.parallel;
  const job::Recompute& recompute = job.recompute;
  const auto add_module = [&](const char* name, bool is_on) {
    if (recompute.granularity == job::RecomputeGranularity::kFull) return;
    if (recompute.granularity == job::RecomputeGranularity::kSelective && is_on) return;
    changes.push_back(with_recompute_of(recompute, name));
  };
  if (has_dense_layer(job.model)) add_module("mlp", recompute.modules.mlp);
  if (job.model.has_moe()) add_module("moe_act", recompute.modules.moe_act);
  if (job.model.has_moe()) add_module("moe", recompute.modules.moe);
  if (recompute.granularity != job::RecomputeGranularity::kFull)
    changes.push_back({"recompute whole layers",
                       {{"recompute_granularity", "full"},
                        {"recompute_method", "uniform"},
                        {"recompute_num_layers", "1"},
                        {"recompute_modules", "[]"}}});
  const auto add_double = [&](const char* label, const char* key, std::int64_t size) {
    changes.push_back(with_doubled_size(job, label, key, size));
  };
  add_double("pp", "pipeline_model_parallel_size", parallel.pipeline);
  add_double("tp", "tensor_model_parallel_size", parallel.tensor);
  add_double("cp", "context_parallel_size", parallel.context);
  if (job.model.has_moe()) add_double("ep", "expert_model_parallel_size", parallel.expert);
  if (parallel.tensor > 1 && !parallel.sequence_parallel)
    changes.push_back({"sequence parallel", {{"sequence_parallel", "true"}}});
  if (!job.optimizer.distributed && job.data_parallel > 1 && job.sharding.kind == job::ShardingKind::kNone)
    changes.push_back({"distributed optimizer", {{"use_distributed_optimizer", "true"}}});
}

void add_other_changes(const job::Job& job, std::vector<Change>& changes) {
  if (job.recompute.granularity != job::RecomputeGranularity::kFull)
    changes.push_back({"gradient checkpointing", {{"gradient_checkpointing", "true"}}});
  if (job.sharding.kind == job::ShardingKind::kZero && job.sharding.zero_stage < 3)
    changes.push_back({fmt::format("ZeRO stage {}", job.sharding.zero_stage + 1),
                       {{"zero_stage", std::to_string(job.sharding.zero_stage + 1)}}});
  // torchtitan knows neither bitsandbytes nor Liger; its loss can be chunked.
  if (job.framework == job::Framework::kTorchtitan) {
    if (job.kernels.loss != job::LossKind::kChunked) changes.push_back({"chunked loss", {{"loss", "chunked"}}});
    return;
  }
  if (job.optimizer.kind == job::OptimizerKind::kAdam) changes.push_back({"8-bit Adam", {{"optimizer", "adam8bit"}}});
  if (job.kernels.loss == job::LossKind::kTransformers)
    changes.push_back({"Liger kernels", {{"use_liger_kernel", "true"}}});
}

bool has_expandable_segments(const job::Job& job) {
  return std::any_of(job.environment.begin(), job.environment.end(), [](const auto& variable) {
    return variable.first.ends_with("ALLOC_CONF") &&
           lower(variable.second).find("expandable_segments:true") != std::string::npos;
  });
}

}  // namespace

Change with_micro_batch(const job::Job& job, std::int64_t size) {
  Change change{fmt::format("micro-batch {}", size), {{"micro_batch_size", std::to_string(size)}}};
  keep_global_batch(job, job.batch.micro_batch / size, change.settings);
  return change;
}

Change with_doubled_size(const job::Job& job, std::string_view label, std::string_view key, std::int64_t size) {
  Change change{fmt::format("{} {}", label, 2 * size), {{std::string(key), std::to_string(2 * size)}}};
  // Experts are split over data-parallel ranks, which stay as many.
  if (key != "expert_model_parallel_size") keep_global_batch(job, 2, change.settings);
  return change;
}

Change with_recompute(const job::Job& job, const std::string& module) {
  return with_recompute_of(job.recompute, module);
}

bool recomputes(const job::Job& job, std::string_view module) {
  const std::vector<std::string> names = recomputed_modules(job.recompute);
  return std::find(names.begin(), names.end(), module) != names.end();
}

std::vector<Change> usual_changes(const job::Job& job) {
  std::vector<Change> changes;
  if (job.is_megatron())
    add_megatron_changes(job, changes);
  else
    add_other_changes(job, changes);
  if (!has_expandable_segments(job))
    changes.push_back({"expandable segments", {{"environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}});
  if (job.batch.micro_batch % 2 == 0) changes.push_back(with_micro_batch(job, job.batch.micro_batch / 2));
  return changes;
}

std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job,
                                        const memory::Answer& answer) {
  return price_these(request, job, answer, usual_changes(job));
}

std::vector<PricedChange> price_these(const job::Request& request, const job::Job& job, const memory::Answer& answer,
                                      std::vector<Change> changes) {
  std::vector<PricedChange> priced;
  const std::int64_t before = answer.ranks[answer.worst].device_used;
  const Result<timing::StepTime> time_before = timing::predict(job);
  for (Change& change : changes) {
    const Result<job::Job> changed = job::resolve(request.with(change.settings));
    if (!changed) continue;
    const Result<memory::Answer> after = memory::answer(*changed, {});
    if (!after) continue;
    const memory::RankAnswer& worst = after->ranks[after->worst];
    PricedChange one{std::move(change), worst.pp_rank, worst.device_used, worst.device_used - before, after->fits, {}};
    // Per token, because a change of data parallelism may change the tokens of a step.
    const Result<timing::StepTime> time = timing::predict(*changed);
    if (time && time_before && time->tokens_per_second_per_gpu > 0)
      one.slower = time_before->tokens_per_second_per_gpu / time->tokens_per_second_per_gpu - 1;
    priced.push_back(std::move(one));
  }
  return priced;
}

std::string as_flags(const Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) {
    std::string text = value;
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    if (!text.empty())
      words.push_back(fmt::format("--{} {}", key.find('.') == std::string::npos ? replace(key, '_', '-') : key, text));
  }
  return join(words, " ");
}

}  // namespace plimsoll::cli
