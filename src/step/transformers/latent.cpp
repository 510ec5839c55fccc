// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (DeepSeek): low-rank queries, one latent for keys and values, and a small
// rotated part shared by all heads.
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Pairs of neighbouring channels turn together; the tables' first half holds their angles.
Var turn_pairs(Graph& g, const Var& x, const Var& cos, const Var& sin) {
  const std::int64_t half = x.elements / 2;
  Var even = slice(g, x, half, true);
  Var odd = slice(g, x, half, true);
  const auto combine = [&](const Var& a, const Var& b) {
    Var straight = mul(g, a, cos, Name::kRopeTemp);
    Var across = mul(g, b, sin, Name::kRopeTemp);
    Var sum = add(g, straight, across, Name::kRopeTemp);
    straight.reset();
    across.reset();
    return sum;
  };
  Var first = combine(even, odd);
  Var second = combine(odd, even);
  return cat(g, first, second, Name::kRopeTemp);
}

}  // namespace

Var latent_attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                     const Var& x) {
  const model::Attention& a = spec.attention;
  const std::int64_t tokens = m.tokens();
  const std::int64_t heads = a.heads / m.tensor;
  const std::int64_t per_head = tokens * heads;
  Tape& tape = g.tape();
  tape.at(Operation::kQkvLinear);
  Var q;
  if (ids.q_down.w >= 0) {
    Var latent = project(g, m, x, ids.q_down, Name::kLatent);
    Var normed = norm(g, m, latent, tokens, ids.q_norm, Name::kLatent);
    latent.reset();
    q = project(g, m, normed, ids.q, Name::kQuery);
  } else {
    q = project(g, m, x, ids.q, Name::kQuery);
  }
  q = to_heads(g, q);
  auto q_parts = split(g, q, {per_head * a.qk_nope_dim, per_head * a.qk_rope_dim, 0}, true);
  Var compressed = project(g, m, x, ids.kv_down, Name::kLatent);
  auto kv_parts = split(g, compressed, {tokens * a.kv_lora_rank, tokens * a.qk_rope_dim, 0}, false);
  compressed.reset();
  Var latent = norm(g, m, kv_parts[0], tokens, ids.k_norm, Name::kLatent);

  tape.at(Operation::kRotary);
  const Var cos = g.view(shared.cos, shared.cos.elements / 2);
  const Var sin = g.view(shared.sin, shared.sin.elements / 2);
  Var q_turned = turn_pairs(g, q_parts[1], cos, sin);
  Var k_turned = turn_pairs(g, kv_parts[1], cos, sin);
  Var query = cat(g, q_parts[0], q_turned, Name::kQuery);

  tape.at(Operation::kQkvLinear);
  Var kv = to_heads(g, project(g, m, latent, ids.k, Name::kLatent));
  auto expanded = split(g, kv, {per_head * a.qk_nope_dim, per_head * a.v_head_dim, 0}, true);
  kv.reset();
  Var shared_key = expand_view(g, k_turned, per_head * a.qk_rope_dim);
  Var key = filled(g, expanded[0], shared_key, Name::kKey);

  tape.at(Operation::kCoreAttention);
  const AttentionShape shape{m.batch, m.sequence, heads, heads, a.qk_nope_dim + a.qk_rope_dim, a.v_head_dim, m.context};
  Var output = attend(g, m, shape, a, -1, query, key, expanded[1], shared);
  tape.at(Operation::kProjection);
  Var result = project(g, m, output, ids.o, Name::kHidden);
  q.reset();
  for (Var& part : q_parts) part.reset();
  q_turned.reset();
  return result;
}

}  // namespace plimsoll::step::transformers
