// SPDX-License-Identifier: Apache-2.0
// How weights, gradients and optimizer states are kept over data-parallel ranks.
#include <fmt/format.h>

#include "job/effective.h"
#include "lever/proposers.h"

namespace plimsoll::lever {

using job::ShardingKind;

bool is_fsdp(const job::Job& job) {
  return job.sharding.kind == ShardingKind::kFsdp2 || job.sharding.kind == ShardingKind::kFsdp1;
}

bool is_unsharded(const job::Job& job) {
  return job.sharding.kind == ShardingKind::kNone || job.sharding.kind == ShardingKind::kDdp;
}

void precision_aware_optimizer(const job::Job& job, Proposals& proposals) {
  const job::Optimizer& optimizer = job.optimizer;
  // FP8 weights, and FP8 of the newer recipes, keep full main weights under it: nothing to win.
  if (job.is_megatron() && optimizer.distributed && !optimizer.precision_aware && !job.precision.fp8_param_gather &&
      job::optimizer_can_keep_main_weights(job) && optimizer.kind == job::OptimizerKind::kAdam &&
      job.precision.params == job::DType::kBf16 && job.sharding.kind == ShardingKind::kNone &&
      job.kernels.implementation != job::Implementation::kLocal)
    proposals.add("precision-aware optimizer", {{"use_precision_aware_optimizer", "true"}});
}

void shard_optimizer(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron()) {
    if (!job.optimizer.distributed && job.data_parallel > 1 && job.sharding.kind == ShardingKind::kNone)
      proposals.add("distributed optimizer", {{"use_distributed_optimizer", "true"}});
    return;
  }
  if (job.sharding.kind == ShardingKind::kZero) {
    for (int stage = job.sharding.zero_stage + 1; stage <= 3; ++stage)
      proposals.add(fmt::format("ZeRO stage {}", stage), {{"zero_stage", std::to_string(stage)}});
  } else if (is_unsharded(job) && job.data_parallel > 1) {
    for (const int stage : {1, 2})
      proposals.add(fmt::format("sharding by ZeRO stage {}", stage),
                    {{"sharding", "zero"}, {"zero_stage", std::to_string(stage)}});
  }
}

void shard_everything(const job::Job& job, Proposals& proposals) {
  if (job.data_parallel == 1) return;
  if (job.is_megatron()) {
    // Its gathered layers take the place of the distributed optimizer's whole copy of the weights. With pipeline stages
    // no run of it is recorded or published: that has to be asked for.
    if (job.sharding.kind == ShardingKind::kNone && job.parallel.pipeline == 1 &&
        job.kernels.implementation != job::Implementation::kLocal)
      proposals.add("Megatron-FSDP", {{"use_megatron_fsdp", "true"},
                                      {"data_parallel_sharding_strategy", "optim_grads_params"},
                                      {"use_distributed_optimizer", "true"},
                                      {"ckpt_format", "fsdp_dtensor"}});
    return;
  }
  if (!is_unsharded(job)) return;
  proposals.add("sharding by FSDP2", {{"sharding", "fsdp2"}});
  proposals.add("sharding by ZeRO stage 3", {{"sharding", "zero"}, {"zero_stage", "3"}});
}

void reshard_after_forward(const job::Job& job, Proposals& proposals) {
  if (is_fsdp(job) && !job.is_megatron() && !job.sharding.reshard_after_forward)
    proposals.add("reshard after forward", {{"reshard_after_forward", "true"}});
}

}  // namespace plimsoll::lever
