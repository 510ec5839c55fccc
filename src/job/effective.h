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

// Transformer Engine fuses a norm into the linear layer after it, except before routers and latent projections: there
// is nothing to recompute (rules.md R104).
[[nodiscard]] inline bool recomputes_norms(const Job& job) {
  if (!job.recompute.modules.layernorm) return false;
  if (job.kernels.implementation != Implementation::kTransformerEngine) return true;
  for (const model::Layer& kind : job.model.kinds)
    if (kind.ffn.is_moe() || kind.attention.kind == model::AttentionKind::kMla) return true;
  return false;
}

}  // namespace plimsoll::job
