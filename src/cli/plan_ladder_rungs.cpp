// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_ladder_rungs.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace plimsoll::cli {

namespace {

using job::ShardingKind;

bool is_fsdp(const job::Job& job) {
  return job.sharding.kind == ShardingKind::kFsdp2 || job.sharding.kind == ShardingKind::kFsdp1;
}

bool is_unsharded(const job::Job& job) {
  return job.sharding.kind == ShardingKind::kNone || job.sharding.kind == ShardingKind::kDdp;
}

bool has_optimizer_on_host(const job::Job& job) {
  return job.sharding.offload_optimizer != job::OffloadTarget::kNone || (is_fsdp(job) && job.sharding.cpu_offload);
}

bool moves_optimizer(const Change& change) {
  return std::any_of(change.settings.begin(), change.settings.end(), [](const auto& setting) {
    return setting.first == "offload_optimizer_device" || setting.first == "fsdp_cpu_offload";
  });
}

// Smaller micro-batches than the half, which usual_changes() has.
void add_small_micro_batches(const job::Job& job, std::vector<Change>& changes) {
  for (std::int64_t size = job.batch.micro_batch; size % 2 == 0 && size > 1;) {
    size /= 2;
    if (size < job.batch.micro_batch / 2) changes.push_back(with_micro_batch(job, size));
  }
}

// Layers of one model chunk: what recompute_num_layers counts with the method block.
std::int64_t layers_per_chunk(const job::Job& job) {
  return job.model.depth() / (job.parallel.pipeline * job.parallel.virtual_pipeline);
}

void add_megatron_rungs(const job::Job& job, std::vector<Change>& changes) {
  const auto whole_layers = [&](std::int64_t layers) {
    changes.push_back({fmt::format("recompute {} of {} layers", layers, layers_per_chunk(job)),
                       {{"recompute_granularity", "full"},
                        {"recompute_method", "block"},
                        {"recompute_num_layers", std::to_string(layers)},
                        {"recompute_modules", "[]"}}});
  };
  if (job.recompute.granularity != job::RecomputeGranularity::kFull) {
    if (layers_per_chunk(job) > 3) whole_layers(layers_per_chunk(job) / 4);
    if (layers_per_chunk(job) > 1) whole_layers(layers_per_chunk(job) / 2);
    if (job.kernels.attention == job::AttentionBackend::kUnfused && !recomputes(job, "core_attn"))
      changes.push_back(with_recompute(job, "core_attn"));
    if (job.model.kinds.front().attention.kind == model::AttentionKind::kMla && !recomputes(job, "mla_up_proj"))
      changes.push_back(with_recompute(job, "mla_up_proj"));
  }
  if (!job.optimizer.cpu_offload) {
    // Megatron-LM refuses the first without the others (facts rules.md R214, R221).
    Settings settings = {{"optimizer_cpu_offload", "true"}};
    if (job.framework == job::Framework::kMegatronLm && !job.optimizer.precision_aware)
      settings.emplace_back("use_precision_aware_optimizer", "true");
    if (job.framework == job::Framework::kMegatronLm && !job.optimizer.distributed)
      settings.emplace_back("use_distributed_optimizer", "true");
    changes.push_back({"optimizer on the host", settings});
    settings.emplace_back("optimizer_offload_fraction", "0.5");
    changes.push_back({"half of the optimizer on the host", std::move(settings)});
  }
  const bool moves_activations = job.offload.activations || job.offload.fine_grained;
  if (!moves_activations && job.parallel.pipeline == 1 && job.model.depth() > 1) {
    for (const std::int64_t layers : {job.model.depth() / 2, job.model.depth() - 1})
      changes.push_back({fmt::format("activations of {} layers on the host", layers),
                         {{"cpu_offloading", "true"}, {"cpu_offloading_num_layers", std::to_string(layers)}}});
  } else if (!moves_activations) {
    changes.push_back({"activations of attention on the host",
                       {{"fine_grained_activation_offloading", "true"}, {"offload_modules", "[core_attn,attn_proj]"}}});
  }
}

// Rungs 8 and 9 of facts out-of-memory.md 2: sharding where there are peers, the host where there is none.
void add_sharding_rungs(const job::Job& job, std::vector<Change>& changes) {
  const auto zero = [&](std::string label, int stage, Settings more) {
    Settings settings = {{"sharding", "zero"}, {"zero_stage", std::to_string(stage)}};
    settings.insert(settings.end(), more.begin(), more.end());
    changes.push_back({std::move(label), std::move(settings)});
  };
  if (is_unsharded(job)) {
    if (job.data_parallel > 1) {
      changes.push_back({"sharding by FSDP2", {{"sharding", "fsdp2"}}});
      for (const int stage : {1, 2, 3}) zero(fmt::format("sharding by ZeRO stage {}", stage), stage, {});
    }
    zero("ZeRO stage 2, optimizer on the host", 2, {{"offload_optimizer_device", "cpu"}});
    zero("ZeRO stage 3, optimizer and weights on the host", 3,
         {{"offload_optimizer_device", "cpu"}, {"offload_param_device", "cpu"}});
  }
  if (is_fsdp(job)) {
    if (!job.sharding.reshard_after_forward)
      changes.push_back({"reshard after forward", {{"reshard_after_forward", "true"}}});
    if (!job.sharding.cpu_offload) changes.push_back({"FSDP shards on the host", {{"fsdp_cpu_offload", "true"}}});
  }
  if (job.sharding.kind != ShardingKind::kZero) return;
  for (int stage = job.sharding.zero_stage + 2; stage <= 3; ++stage)
    changes.push_back({fmt::format("ZeRO stage {}", stage), {{"zero_stage", std::to_string(stage)}}});
  if (job.sharding.zero_stage > 0 && job.sharding.offload_optimizer == job::OffloadTarget::kNone)
    changes.push_back({"optimizer on the host", {{"offload_optimizer_device", "cpu"}}});
  if (job.sharding.zero_stage == 3 && job.sharding.offload_param == job::OffloadTarget::kNone)
    changes.push_back({"weights on the host", {{"offload_param_device", "cpu"}}});
}

void add_torchtitan_rungs(const job::Job& job, std::vector<Change>& changes) {
  if (job.recompute.granularity == job::RecomputeGranularity::kFull && job.recompute.every_nth_layer > 1)
    changes.push_back({"recompute every layer", {{"recompute_every_nth_layer", "0"}}});
  changes.push_back(with_doubled_size(job, "tp", "tensor_model_parallel_size", job.parallel.tensor));
  changes.push_back(with_doubled_size(job, "cp", "context_parallel_size", job.parallel.context));
}

void add_other_rungs(const job::Job& job, std::vector<Change>& changes) {
  if (job.kernels.attention == job::AttentionBackend::kUnfused)
    changes.push_back({"flash attention", {{"attention_backend", "flash"}}});
  add_sharding_rungs(job, changes);
  // bitsandbytes steps on the GPU: its states cannot live on the host as well.
  if (job.optimizer.kind == job::OptimizerKind::kAdam8bit) std::erase_if(changes, moves_optimizer);
  if (has_optimizer_on_host(job))
    std::erase_if(changes, [](const Change& change) { return change.settings.front().first == "optimizer"; });
  if (job.recompute.granularity == job::RecomputeGranularity::kFull && !job.offload.checkpointed_inputs &&
      job.framework != job::Framework::kTorchtitan)
    changes.push_back({"checkpointed inputs on the host", {{"offload_checkpointed_inputs", "true"}}});
  if (job.framework == job::Framework::kTorchtitan) add_torchtitan_rungs(job, changes);
}

}  // namespace

std::vector<Change> ladder_rungs(const job::Job& job) {
  std::vector<Change> changes = usual_changes(job);
  add_small_micro_batches(job, changes);
  if (job.is_megatron())
    add_megatron_rungs(job, changes);
  else
    add_other_rungs(job, changes);
  return changes;
}

std::vector<Change> science_changes(const job::Job& job) {
  std::vector<Change> changes;
  if (job.batch.seq_length % 2 == 0)
    changes.push_back({"half the sequence length", {{"seq_length", std::to_string(job.batch.seq_length / 2)}}});
  const bool has_bf16 = job.cluster.gpu.architecture != cluster::Architecture::kVolta &&
                        job.cluster.gpu.architecture != cluster::Architecture::kTuring;
  if (job.precision.compute == job::DType::kFp32 && has_bf16) changes.push_back({"bf16", {{"bf16", "true"}}});
  if (job.is_megatron() && job.precision.fp8 == job::Fp8Recipe::kNone && job.cluster.gpu.is_hopper_or_newer() &&
      job.precision.compute == job::DType::kBf16) {
    const char* recipe = job.cluster.gpu.is_blackwell() ? "mxfp8" : "tensorwise";
    changes.push_back(
        {fmt::format("FP8, {}", recipe), {{"fp8", "hybrid"}, {"fp8_recipe", recipe}, {"fp8_param_gather", "true"}}});
  }
  if (job.is_megatron() && job.optimizer.grad_reduce_in_fp32 && job.precision.compute == job::DType::kBf16)
    changes.push_back({"gradients in bf16", {{"grad_reduce_in_fp32", "false"}}});
  if (job.optimizer.kind == job::OptimizerKind::kAdam && !job.is_megatron() &&
      job.framework != job::Framework::kTorchtitan)
    changes.push_back({"Adafactor", {{"optimizer", "adafactor"}}});
  const bool has_peft = job.framework != job::Framework::kMegatronLm && job.framework != job::Framework::kTorchtitan;
  if (has_peft && job.adapter.kind == job::AdapterKind::kNone) changes.push_back({"LoRA", {{"peft", "lora"}}});
  if (has_peft && !job.is_megatron() && !job.adapter.quantized_base) {
    Settings settings = {{"load_in_4bit", "true"}};
    if (job.adapter.kind == job::AdapterKind::kNone) settings.emplace_back("peft", "lora");
    changes.push_back({"QLoRA (4-bit model)", std::move(settings)});
  }
  return changes;
}

int reach(const Change& change) {
  const std::string_view key = change.settings.front().first;
  if (key.starts_with("environment.")) return 1;
  if (key == "micro_batch_size") return 2;
  if (key.ends_with("_parallel_size") || key == "sharding") return 5;
  const bool moves = std::any_of(change.settings.begin(), change.settings.end(), [](const auto& setting) {
    return setting.first.find("offload") != std::string::npos;
  });
  return moves ? 4 : 3;
}

}  // namespace plimsoll::cli
