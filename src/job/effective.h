// SPDX-License-Identifier: Apache-2.0
// What a knob does where a framework takes it and passes over it. Prices read these, rules say so in words.
#pragma once

#include "job/job.h"

namespace plimsoll::job {

// DeepSpeed offloads the optimizer of a ZeRO stage; stage 0 has none (rules.md S011).
[[nodiscard]] inline OffloadTarget optimizer_offload(const Sharding& sharding) {
  return sharding.kind == ShardingKind::kZero && sharding.zero_stage > 0 ? sharding.offload_optimizer
                                                                         : OffloadTarget::kNone;
}

// Weights leave the GPU in stage 3 only (rules.md R275).
[[nodiscard]] inline OffloadTarget parameter_offload(const Sharding& sharding) {
  return sharding.kind == ShardingKind::kZero && sharding.zero_stage == 3 ? sharding.offload_param
                                                                          : OffloadTarget::kNone;
}

// A vision tower is described as Transformers runs it, on whole layers of one stage.
[[nodiscard]] inline bool runs_tower(const Job& job) {
  return job.kernels.implementation == Implementation::kTransformers && job.parallel.tensor == 1 &&
         job.parallel.context == 1 && job.parallel.pipeline == 1;
}

// Transformer Engine fuses a norm into the linear layer after it, except before routers and latent projections: there
// is nothing to recompute (rules.md R104).
[[nodiscard]] inline bool recomputes_norms(const Job& job) {
  if (!job.recompute.modules.layernorm) return false;
  if (job.kernels.implementation != Implementation::kTransformerEngine) return true;
  for (const model::Layer& kind : job.model.kinds)
    if (kind.ffn.is_moe() || kind.attention.kind == model::AttentionKind::kMla) return true;
  return false;
}

// The precision-aware optimizer keeps the main weights itself, and only what bf16 lacks of them; Megatron keeps them
// whole beside FP8 of a recipe whose scales its kernel cannot find (facts megatron-memory.md 3.2).
[[nodiscard]] inline bool optimizer_can_keep_main_weights(const Job& job) {
  const bool finds_scales = job.precision.fp8 == Fp8Recipe::kNone || job.precision.fp8 == Fp8Recipe::kDelayed;
  return finds_scales || job.optimizer.main_params != DType::kFp32 || job.optimizer.cpu_offload_fraction > 0;
}

// Weights, gradients and states are sharded over data-parallel ranks and gathered a layer at a time: by Megatron's own
// FSDP, or by PyTorch's FSDP2 inside Megatron, which is counted as that.
[[nodiscard]] inline bool shards_by_megatron_fsdp(const Job& job) {
  return job.sharding.kind == ShardingKind::kMegatronFsdp ||
         (job.is_megatron() && job.sharding.kind == ShardingKind::kFsdp2);
}

// Messages of tensor parallelism hide behind products. Megatron-Bridge turns that off without sequence parallelism or
// Transformer Engine (rules.md R019); Megatron-LM refuses the one, and has userbuffers all the same without the other.
[[nodiscard]] inline bool overlaps_tensor_messages(const Job& job) {
  if (!job.parallel.tp_comm_overlap || job.parallel.tensor < 2) return false;
  return !job.facts().hides_messages_only_with_engine ||
         (job.parallel.sequence_parallel && job.kernels.implementation == Implementation::kTransformerEngine);
}

}  // namespace plimsoll::job
