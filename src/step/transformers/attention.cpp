// SPDX-License-Identifier: Apache-2.0
// Attention blocks: projections, rotation, the kernel or the eager chain, and the output projection.
#include <algorithm>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Scores are materialised: bf16 scores, their fp32 softmax and its 16-bit copy.
Var eager(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, std::int32_t sinks,
          const Var& q, const Var& k, const Var& v, const Var& mask) {
  const std::int64_t groups = s.heads / s.kv_heads;
  Var keys = expand(g, k, groups, Name::kKey);
  Var values = expand(g, v, groups, Name::kValue);
  const BatchShape scores{s.batch * s.heads, s.sequence, s.head_dim, s.sequence};
  Var weights;
  {
    Var product = batched_matmul(g, q, keys, scores, Name::kAttentionTemp);
    weights = scale(g, product, Name::kAttentionTemp);
  }
  if (a.softcap) {
    weights = scale(g, weights, Name::kAttentionTemp);
    weights = keeps_result(g, weights, Name::kScores);
    weights = scale(g, weights, Name::kAttentionTemp);
  }
  if (mask) weights = add(g, weights, mask, Name::kAttentionTemp);
  if (sinks >= 0) {  // gpt-oss: a learned column joins the softmax and is cut off again
    const std::int64_t rows = s.batch * s.heads * s.sequence;
    Var joined = cat(g, weights, expand_view(g, g.use(sinks), rows), Name::kAttentionTemp);
    joined = add_number(g, joined, Name::kAttentionTemp);
    Var probabilities = softmax(g, joined, Name::kScores);
    joined.reset();
    weights = slice(g, probabilities, rows * s.sequence, true);
  } else if (m.family.conv1d) {
    weights = softmax(g, weights, Name::kScores);
  } else {
    Var probabilities = softmax_fp32(g, weights, Name::kScores);
    weights = cast(g, probabilities, q.width, Name::kScores);
  }
  weights = dropout(g, weights, m.architecture().attention_dropout, Name::kScores);
  const BatchShape mix{s.batch * s.heads, s.sequence, s.sequence, s.value_dim};
  Var output = batched_matmul(g, weights, values, mix, Name::kHidden);
  output = copy(g, output, Name::kAttentionOutput);
  return output;
}

Var core_attention(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, std::int32_t sinks,
                   const Var& q, const Var& k, const Var& v, const Shared& shared) {
  g.tape().at(Operation::kCoreAttention);
  const bool local = a.sliding_window > 0;
  const Var& mask = local ? shared.sliding_mask : shared.full_mask;
  // No kernel takes fp32 with grouped heads: PyTorch falls back to its unfused form.
  const bool unfused = m.eager_attention || (q.width == 4 && !g.autocast && s.kv_heads < s.heads);
  if (unfused) return eager(g, m, s, a, sinks, q, k, v, mask);
  const auto laid_out = [&](const Var& y) {  // the kernel's output has the query's layout
    return y.head_major ? copy(g, y, Name::kAttentionOutput) : y;
  };
  if (!mask) return laid_out(fused_attention(g, s, q, k, v, {}));
  // A mask rules out the grouped kernel: keys and values are repeated.
  const std::int64_t groups = s.heads / s.kv_heads;
  Var keys = expand(g, k, groups, Name::kKey);
  Var values = expand(g, v, groups, Name::kValue);
  return laid_out(fused_attention(g, s, q, keys, values, mask));
}

// Norm of queries or keys: per head, or over all of them.
Var head_norm(Graph& g, const Model& m, const Var& x, const NormIds& ids, Name name) {
  if (ids.w < 0) return x;
  return norm(g, m, x, x.elements / m.weights[static_cast<std::size_t>(ids.w)].elements, ids, name);
}

AttentionShape shape_of(const Model& m, const model::Attention& a) {
  return {m.batch,
          m.sequence,
          std::max<std::int64_t>(1, a.heads / m.tensor),
          std::max<std::int64_t>(1, a.kv_heads / m.tensor),
          a.head_dim,
          a.head_dim,
          m.context};
}

}  // namespace

Var attend(Graph& g, const Model& m, const AttentionShape& shape, const model::Attention& a, std::int32_t sinks,
           const Var& q, const Var& k, const Var& v, const Shared& shared) {
  return core_attention(g, m, shape, a, sinks, q, k, v, shared);
}

Var attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
              const Var& x) {
  const model::Attention& a = spec.attention;
  if (a.kind == model::AttentionKind::kMla) return latent_attention(g, m, spec, ids, shared, x);
  if (a.kind == model::AttentionKind::kLinear) return delta_net(g, m, a, ids, x);
  const AttentionShape s = shape_of(m, a);
  const std::int64_t tokens = m.tokens();
  g.tape().at(Operation::kQkvLinear);
  Var q, k, v, gate;
  if (ids.qkv.w >= 0) {
    Var packed = project(g, m, x, ids.qkv, Name::kQkv);
    const std::array<std::int64_t, 3> sizes{tokens * s.heads * a.head_dim, tokens * s.kv_heads * a.head_dim,
                                            tokens * s.kv_heads * a.head_dim};
    std::array<Var, 3> parts;
    if (m.family.splits_heads) {
      parts = split(g, to_heads(g, packed), sizes, true);
      packed.reset();
      q = parts[0];
      k = parts[1];
      v = parts[2];
    } else if (m.family.slices_qkv) {
      for (std::size_t i = 0; i < 3; ++i) parts[i] = slice(g, packed, sizes[i], false);
    } else {
      parts = split(g, packed, sizes, false);
    }
    if (!m.family.splits_heads) {
      packed.reset();
      q = to_heads(g, parts[0]);
      k = to_heads(g, parts[1]);
      v = to_heads(g, parts[2]);
    }
  } else {
    const bool early = !m.family.norms_after_heads;
    q = project(g, m, x, ids.q, Name::kQuery);
    if (a.output_gate) {  // projected beside the queries
      const std::int64_t half = tokens * s.heads * a.head_dim;
      auto parts = split(g, q, {half, half, 0}, false);
      q = parts[0];
      gate = parts[1];
    }
    if (early) q = head_norm(g, m, q, ids.q_norm, Name::kQuery);
    q = to_heads(g, q);
    k = project(g, m, x, ids.k, Name::kKey);
    if (early) k = head_norm(g, m, k, ids.k_norm, Name::kKey);
    k = to_heads(g, k);
    v = to_heads(g, project(g, m, x, ids.v, Name::kValue));
    if (!early) {
      q = head_norm(g, m, q, ids.q_norm, Name::kQuery);
      k = head_norm(g, m, k, ids.k_norm, Name::kKey);
    }
  }
  std::array<Var, 4> held;
  if (m.architecture().rope) {
    g.tape().at(Operation::kRotary);
    held = rotate(g, m, shared, a.head_dim, q, k);
  }
  Var output = attend(g, m, s, a, ids.sinks, q, k, v, shared);
  if (gate) output = mul(g, output, keeps_result(g, gate, Name::kActivation), Name::kAttentionOutput);
  gate.reset();
  g.tape().at(Operation::kProjection);
  Var y = project(g, m, output, ids.o, Name::kHidden);
  output.reset();
  q.reset();
  k.reset();
  return y;
}

}  // namespace plimsoll::step::transformers
