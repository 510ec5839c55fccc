// SPDX-License-Identifier: Apache-2.0
// A layer under torch.compile: Inductor fuses chains of elementwise operations into the kernels around them and
// computes them again in backward, so that only results of products and of attention, normalised inputs of
// products and the statistics of norms stay. Sums of the residual stream are read off the kept block outputs.
#include <algorithm>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

Var compiled_norm(Graph& g, const Model& m, const Var& x, const NormIds& ids) {
  const std::uint8_t width = m.autocast ? std::uint8_t{2} : x.width;
  return fused_norm(g, x, m.residual_tokens(), ids.w, ids.bias, width);
}

// The sum needs a storage of its own only where a checkpointed layer begins with it.
Var join(Graph& g, const Var& residual, const Var& branch, bool materialise) {
  return materialise ? add(g, residual, branch, Name::kLayerInput) : fused_add(g, residual, branch);
}

Var compiled_attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                       const Var& x) {
  const model::Attention& a = spec.attention;
  const AttentionShape s{m.batch, m.sequence, a.heads, a.kv_heads, a.head_dim, a.head_dim, 1};
  g.tape().at(Operation::kQkvLinear);
  std::array<Var, 3> parts;
  if (ids.qkv.w >= 0) {
    const Var packed = project(g, m, x, ids.qkv, Name::kQkv);
    const std::int64_t kv = m.tokens() * a.kv_heads * a.head_dim;
    parts = split(g, packed, {m.tokens() * a.heads * a.head_dim, kv, kv}, false);
  } else {
    parts = {project(g, m, x, ids.q, Name::kQuery), project(g, m, x, ids.k, Name::kKey),
             project(g, m, x, ids.v, Name::kValue)};
  }
  g.tape().at(Operation::kRotary);
  Var q = in_place(g, parts[0], shared.cos, shared.sin);
  const std::int64_t groups = a.heads / a.kv_heads;
  // Tracing builds the mask in any case, and a mask rules out grouped heads.
  Var k = groups > 1 ? expand(g, parts[1], groups, Name::kKey) : in_place(g, parts[1], shared.cos, shared.sin);
  Var v = expand(g, parts[2], groups, Name::kValue);
  for (Var* head : {&k, &v}) head->head_major = false;
  parts = {};
  g.tape().at(Operation::kCoreAttention);
  const Var& mask = a.sliding_window > 0 ? shared.sliding_mask : shared.full_mask;
  Var output = fused_attention(g, {s.batch, s.sequence, s.heads, s.heads, s.head_dim, s.head_dim, 1}, q, k, v, mask);
  g.tape().at(Operation::kProjection);
  return project(g, m, output, ids.o, Name::kHidden);
}

Var compiled_mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x) {
  g.tape().at(Operation::kFc1Linear);
  Var active;
  if (!ffn.gated) {
    active = keeps_input(g, project(g, m, x, ids.up, Name::kFc1), Name::kActivation);
  } else if (ids.gate_up.w >= 0) {
    const Var up = project(g, m, x, ids.gate_up, Name::kFc1);
    const auto parts = split(g, up, {up.elements / 2, up.elements / 2, 0}, false);
    active = liger_swiglu(g, parts[0], parts[1], Name::kActivation);
  } else {
    const Var gate = project(g, m, x, ids.gate, Name::kFc1);
    const Var up = project(g, m, x, ids.up, Name::kFc1);
    active = liger_swiglu(g, gate, up, Name::kActivation);
  }
  g.tape().at(Operation::kFc2Linear);
  return project(g, m, active, ids.down, Name::kHidden);
}

}  // namespace

bool compiles(const Model& m) {
  if (!m.job->kernels.torch_compile || m.torchtitan || m.tensor > 1 || m.context > 1 || m.liger) return false;
  const job::ShardingKind sharding = m.job->sharding.kind;
  if (m.eager_attention || (sharding != job::ShardingKind::kNone && sharding != job::ShardingKind::kDdp)) return false;
  const model::Architecture& a = m.architecture();
  return std::all_of(a.kinds.begin(), a.kinds.end(), [&](const model::Layer& kind) {
    return kind.attention.kind == model::AttentionKind::kGqa && kind.attention.mamba.heads == 0 && !kind.ffn.is_moe() &&
           !kind.ffn.is_empty() && kind.norms == 2 && !kind.parallel_block && !kind.cross_attention &&
           kind.attention.qk_norm == model::QkNorm::kNone && !kind.attention.output_gate && kind.attention.causal &&
           !kind.attention.softcap && !a.post_norm_only && !a.alibi && a.head == model::Head::kLanguage &&
           a.hidden_dropout == 0 && m.family.norm == NormForm::kUsual;
  });
}

Var compiled_layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x, bool materialise) {
  const model::Layer& spec = m.architecture().layer(m.first_layer + index);
  const LayerIds& ids = m.layers[static_cast<std::size_t>(index)];
  g.tape().at(Operation::kNorm1);
  Var hidden = compiled_norm(g, m, x, ids.norm[0]);
  hidden = compiled_attention(g, m, spec, ids, shared, hidden);
  const Var middle = join(g, x, hidden, false);
  g.tape().at(Operation::kNorm2);
  hidden = compiled_norm(g, m, middle, ids.norm[1]);
  hidden = compiled_mlp(g, m, spec.ffn, ids, hidden);
  return join(g, middle, hidden, materialise);
}

}  // namespace plimsoll::step::transformers
