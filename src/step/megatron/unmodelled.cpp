// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/unmodelled.h"

namespace plimsoll::step::megatron {

std::vector<std::string> unmodelled(const job::Job& job) {
  std::vector<std::string> warnings;
  const auto warn = [&](bool set, const char* text) {
    if (set) warnings.emplace_back(text);
  };
  warn(job.parallel.delay_wgrad,
       "delay_wgrad_compute: inputs and output gradients that wait for deferred weight gradients are not counted");
  warn(job.parallel.overlap_moe_expert_comm,
       "overlap_moe_expert_parallel_comm: one more layer's forward working set beside a backward is not counted");
  warn(job.offload.weights, "cpu_offloading_weights: weights are counted as staying on the GPU");
  warn(job.sharding.kind == job::ShardingKind::kMegatronFsdp && job.sharding.megatron_main_params != job::DType::kFp32,
       "megatron_fsdp_main_params_dtype: main weights are counted in fp32");
  warn(job.optimizer.nccl_ub, "nccl_ub: buffers are counted without the NCCL pool's rounding");
  warn(job.sharding.kind == job::ShardingKind::kFsdp2,
       "use_torch_fsdp2: PyTorch's FSDP2 under Megatron is counted as Megatron-FSDP");
  warn(job.optimizer.kind == job::OptimizerKind::kAdafactor,
       "adafactor under Megatron: its factored states are counted as nothing");
  warn(job.asked.flex_dispatcher, "moe_token_dispatcher_type flex: dispatch buffers are counted as those of alltoall");
  for (const model::Layer& kind : job.model.kinds) {
    if (kind.attention.kind != model::AttentionKind::kLinear) continue;
    warn(true, "linear attention: activations of its layers are counted as full attention of the same heads");
    break;
  }
  return warnings;
}

}  // namespace plimsoll::step::megatron
