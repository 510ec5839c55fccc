// SPDX-License-Identifier: Apache-2.0
// What can live in the host's memory.
#include <fmt/format.h>

#include "lever/proposers.h"

namespace plimsoll::lever {

using job::OffloadTarget;
using job::ShardingKind;

namespace {

void offload_megatron_optimizer(const job::Job& job, Proposals& proposals) {
  if (job.asked.optimizer_cpu_offload) return;
  job::Settings settings = {{"optimizer_cpu_offload", "true"}};
  // The first is refused without the others there (facts rules.md R221).
  const bool needs_others = job.facts().moves_precision_aware_only;
  if (needs_others && !job.optimizer.precision_aware) settings.emplace_back("use_precision_aware_optimizer", "true");
  if (needs_others && !job.optimizer.distributed) settings.emplace_back("use_distributed_optimizer", "true");
  proposals.add("optimizer on the host", settings);
  settings.emplace_back("optimizer_offload_fraction", "0.5");
  proposals.add("half of the optimizer on the host", std::move(settings));
}

// bitsandbytes steps on the GPU: its states cannot live on the host as well.
bool steps_on_device(const job::Job& job) { return job.optimizer.kind == job::OptimizerKind::kAdam8bit; }

}  // namespace

bool has_optimizer_on_host(const job::Job& job) {
  return job.sharding.offload_optimizer != OffloadTarget::kNone || (is_fsdp(job) && job.sharding.cpu_offload) ||
         job.asked.optimizer_cpu_offload;
}

void offload_optimizer(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron()) {
    offload_megatron_optimizer(job, proposals);
    return;
  }
  if (steps_on_device(job)) return;
  if (is_unsharded(job) && runs_hub_modules(job))
    proposals.add("ZeRO stage 2, optimizer on the host",
                  {{"sharding", "zero"}, {"zero_stage", "2"}, {"offload_optimizer_device", "cpu"}});
  if (job.sharding.kind == ShardingKind::kZero && job.sharding.zero_stage > 0 &&
      job.sharding.offload_optimizer == OffloadTarget::kNone)
    proposals.add("optimizer on the host", {{"offload_optimizer_device", "cpu"}});
  if (is_fsdp(job) && !job.sharding.cpu_offload)
    proposals.add("FSDP shards on the host", {{"fsdp_cpu_offload", "true"}});
}

void offload_weights(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron() || steps_on_device(job)) return;
  if (is_unsharded(job) && runs_hub_modules(job))
    proposals.add("ZeRO stage 3, optimizer and weights on the host", {{"sharding", "zero"},
                                                                      {"zero_stage", "3"},
                                                                      {"offload_optimizer_device", "cpu"},
                                                                      {"offload_param_device", "cpu"}});
  if (job.sharding.kind == ShardingKind::kZero && job.sharding.zero_stage == 3 &&
      job.sharding.offload_param == OffloadTarget::kNone)
    proposals.add("weights on the host", {{"offload_param_device", "cpu"}});
}

void offload_activations(const job::Job& job, Proposals& proposals) {
  const bool moves = job.offload.activations || job.offload.fine_grained || job.offload.checkpointed_inputs;
  if (moves) return;
  if (!job.is_megatron()) {
    if (job.recompute.granularity == job::RecomputeGranularity::kFull && runs_hub_modules(job))
      proposals.add("checkpointed inputs on the host", {{"offload_checkpointed_inputs", "true"}});
    return;
  }
  if (job.parallel.pipeline == 1 && job.model.depth() > 1) {
    for (const std::int64_t layers : {job.model.depth() / 2, job.model.depth() - 1})
      proposals.add(fmt::format("activations of {} layers on the host", layers),
                    {{"cpu_offloading", "true"}, {"cpu_offloading_num_layers", std::to_string(layers)}});
  } else {
    proposals.add("activations of attention on the host",
                  {{"fine_grained_activation_offloading", "true"}, {"offload_modules", "[core_attn,attn_proj]"}});
  }
}

}  // namespace plimsoll::lever
