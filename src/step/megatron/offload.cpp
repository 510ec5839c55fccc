// SPDX-License-Identifier: Apache-2.0
// Activation offload: after a layer's forward the chosen tensors are copied to pinned host memory and
// freed; before its backward they are allocated again (facts megatron-memory.md 8). cpu_offloading takes whatever
// autograd saves inside the layer, quantised copies too (_check_if_offload in Transformer Engine's cpu_offload.py).
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

template <class Visit>
void Layer::visit_offloaded(Kept& kept, const Visit& visit) const {
  std::size_t slot = 0;
  const auto each = [&](bool wanted, Tensor& tensor, Name name) {
    if (wanted) visit(tensor, kept.on_host[slot], name);
    ++slot;
  };
  const bool all = offload_ == OffloadScope::kLayer;
  const job::OffloadModules& m = c_.offload;
  // A norm that is fused into its linear saves nothing of its own.
  const bool separate_norm1 = z_.mla || !c_.te;
  const bool separate_norm2 = z_.experts > 0 || !c_.te;
  each((all || (m.attn_norm && separate_norm1)) && !kept.x_is_held, kept.x, Name::kLayerInput);
  each(all || m.qkv_linear, kept.norm1, Name::kNormOutput);
  each(all || m.core_attn, kept.q, Name::kQuery);
  each(all || m.core_attn, kept.k, Name::kKey);
  each(all || m.core_attn, kept.v, Name::kValue);
  each(all || m.core_attn, kept.qkv, Name::kQkv);
  for (Tensor* t : {&kept.q_latent, &kept.q_latent_norm, &kept.kv_latent, &kept.kv_latent_norm})
    each(all, *t, Name::kLatent);
  each(all, kept.k_rope, Name::kKey);
  each(all, kept.qk_in, Name::kQkv);
  each(all || m.core_attn, kept.scores, Name::kScores);
  each(all || m.core_attn, kept.scores_dropped, Name::kScores);
  each(all || (m.attn_proj && m.core_attn), kept.out, Name::kAttentionOutput);
  each(all, kept.out_copy, Name::kAttentionOutput);
  each(all, kept.gate, Name::kAttentionOutput);
  each(all || m.attn_proj, kept.out_saved, Name::kQuantizedInput);
  each(all || (m.mlp_norm && separate_norm2), kept.x2, Name::kNormInput);
  each(all, kept.norm2, Name::kNormOutput);
  each(all, kept.fc1, Name::kFc1);
  each(all, kept.glu, Name::kActivation);
  each(all, kept.act, Name::kActivation);
  const bool experts = all || m.fused_group_mlp;
  each(experts || m.expert_fc1, kept.routed, Name::kRoutedTokens);
  each(experts || m.moe_act, kept.expert_fc1, Name::kExpertFc1);
  each(experts, kept.expert_act, Name::kExpertActivation);
  each(experts, kept.expert_act_extra, Name::kExpertActivation);
  each(all, kept.shared_fc1, Name::kSharedExpert);
  each(all, kept.shared_act, Name::kSharedExpert);
  each(all, kept.mixer.projected, Name::kProjectedState);
  each(all, kept.mixer.scanned, Name::kScanOutput);
  each(all, kept.mixer.gated, Name::kScanOutput);
  each(all, kept.mixer.normed, Name::kNormOutput);
  each(all, kept.latent_in, Name::kQuantizedInput);
  each(all, kept.latent_out, Name::kRoutedTokens);
}

void Layer::offload(Tape& tape, Kept& kept) const {
  if (offload_ == OffloadScope::kNone) return;
  visit_offloaded(kept, [&](Tensor& tensor, std::int64_t& on_host, Name) {
    if (tensor.bytes < c_.smallest_offloaded) return;
    on_host = tensor.bytes;
    tape.free(tensor);
  });
}

void Layer::reload(Tape& tape, Kept& kept) const {
  if (offload_ == OffloadScope::kNone) return;
  visit_offloaded(kept, [&](Tensor& tensor, std::int64_t& on_host, Name name) {
    if (on_host == 0) return;
    tensor = tape.alloc(on_host, name);
    on_host = 0;
  });
}

std::int64_t Layer::offloaded_bytes(const Kept& kept) const {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : kept.on_host) sum += bytes;
  return sum;
}

}  // namespace plimsoll::step::megatron
