// SPDX-License-Identifier: Apache-2.0
// Linear attention as a gated delta net (Qwen3-Next, Qwen3.5): packed projections, a short convolution over
// queries, keys and values, and a recurrence that the kernels of flash-linear-attention run chunk by chunk,
// keeping one state per chunk and head instead of scores. No recording of it exists: rank.cpp says so.
#include <algorithm>
#include <initializer_list>

#include "base/checked.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kChunk = 64;  // tokens that a kernel handles at once

struct DeltaShape {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;  // of values; queries and keys are repeated to them
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t chunks = 0;

  [[nodiscard]] std::int64_t keys() const { return tokens * heads * key_dim; }
  [[nodiscard]] std::int64_t values() const { return tokens * heads * value_dim; }
  [[nodiscard]] std::int64_t states() const { return chunks * heads * key_dim * value_dim; }
  [[nodiscard]] std::int64_t triangles() const { return tokens * heads * kChunk; }
};

// n: keys, values, states, triangles, elements of a gate. Forward's intermediates are computed again.
void delta_backward(Graph& g, Node& node, Grads& result) {
  const std::uint8_t width = node.w[0];
  Var w = g.alloc(node.n[0], width, Name::kAttentionTemp);
  Var u = g.alloc(node.n[1], width, Name::kAttentionTemp);
  Var states = g.alloc(node.n[2], width, Name::kAttentionTemp);
  Var corrected = g.alloc(node.n[1], width, Name::kAttentionTemp);
  Var state_grads = g.alloc(node.n[2], width, Name::kAttentionTemp);
  Var triangle = g.alloc(node.n[3], width, Name::kAttentionTemp);
  const std::array<std::int64_t, 4> sizes{node.n[0], node.n[0], node.n[1], 2 * node.n[4]};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (node.edges[i].exists()) result[i] = g.alloc(sizes[i], i == 3 ? node.w[1] : width, Name::kGrad);
}

Var delta_rule(Graph& g, const DeltaShape& s, const Var& q, const Var& k, const Var& v, const Var& gates) {
  const std::int32_t node = g.node(delta_backward, q, k, v, gates);
  const std::uint8_t width = v.width;
  if (node >= 0) {
    g.at(node).n = {s.keys(), s.values(), s.states(), s.triangles(), s.tokens * s.heads};
    g.at(node).w = {width, gates.width};
  }
  Var normed_q = g.alloc(s.keys(), width, Name::kQuery);
  Var normed_k = g.alloc(s.keys(), width, Name::kKey);
  Var decay = g.alloc(s.tokens * s.heads, 4, Name::kNormStats);  // summed within a chunk
  Var solved;
  {
    Var products = g.alloc(s.triangles(), 4, Name::kAttentionTemp);
    solved = g.alloc(s.triangles(), width, Name::kAttentionOutput);
  }
  Var y;
  {
    Var w = g.alloc(s.keys(), width, Name::kAttentionTemp);
    Var u = g.alloc(s.values(), width, Name::kAttentionTemp);
    Var states = g.alloc(s.states(), width, Name::kAttentionTemp);
    Var corrected = g.alloc(s.values(), width, Name::kAttentionTemp);
    y = g.alloc(s.values(), width, Name::kAttentionOutput);
  }
  for (const Var* saved : std::initializer_list<const Var*>{&normed_q, &normed_k, &v, &decay, &gates, &solved})
    g.save(node, *saved);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace

Var delta_net(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x) {
  const std::int64_t tokens = m.tokens();
  const std::int64_t keys = tokens * a.linear_key_heads / m.tensor * a.linear_key_dim;
  const std::int64_t values = tokens * a.linear_value_heads / m.tensor * a.linear_value_dim;
  g.tape().at(Operation::kQkvLinear);
  Var packed = project(g, m, x, ids.qkv, Name::kQkv);
  auto parts = split(g, packed, {2 * keys + values, values, 0}, false);  // q, k and v; the gate of the output
  packed.reset();
  Var decays = project(g, m, x, ids.decays, Name::kRouter);

  g.tape().at(Operation::kCoreAttention);
  Var mixed = copy(g, parts[0], Name::kQkv);  // laid out along time
  Var convolved = keeps_input(g, mixed, Name::kQkv);
  mixed.reset();
  auto qkv = split(g, convolved, {keys, keys, values}, false);
  convolved.reset();
  const std::int64_t repeats = std::max<std::int64_t>(1, a.linear_value_heads / a.linear_key_heads);
  Var q = expand(g, qkv[0], repeats, Name::kQuery);
  Var k = expand(g, qkv[1], repeats, Name::kKey);
  Var gates = keeps_input(g, cast(g, decays, 4, Name::kRouter), Name::kRouter);
  const DeltaShape shape{tokens, a.linear_value_heads / m.tensor, a.linear_key_dim, a.linear_value_dim,
                         m.batch * ceil_div(m.sequence, kChunk)};
  Var y = delta_rule(g, shape, q, k, qkv[2], gates);
  q.reset();
  k.reset();
  Var normed = norm(g, m, y, tokens * shape.heads, ids.q_norm, Name::kAttentionOutput);
  Var gated = mul(g, normed, keeps_input(g, parts[1], Name::kActivation), Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, m, gated, ids.o, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
