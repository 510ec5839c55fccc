// SPDX-License-Identifier: Apache-2.0
// Linear attention as a gated delta net (Qwen3-Next, Qwen3.5): packed projections, a short convolution over
// queries, keys and values, and a recurrence over chunks of tokens, as Transformers runs it where
// flash-linear-attention is not installed: products within all chunks at once, then one chunk after the other, whose
// states are all kept.
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
  std::int64_t chunks_per_sequence = 0;

  [[nodiscard]] std::int64_t keys() const { return tokens * heads * key_dim; }
  [[nodiscard]] std::int64_t values() const { return tokens * heads * value_dim; }
  [[nodiscard]] std::int64_t states() const { return chunks * heads * key_dim * value_dim; }
  [[nodiscard]] std::int64_t triangles() const { return tokens * heads * kChunk; }
};

// n: keys, values, states, triangles, elements of a gate.
void delta_backward(Graph& g, Node& node, Grads& result) {
  const auto fresh = [&](std::int64_t elements) { return g.alloc(elements, 4, Name::kGrad); };
  Var state = fresh(node.n[5]);
  Var of_keys[2] = {fresh(node.n[0]), fresh(node.n[0])};
  Var of_values = fresh(node.n[1]);
  Var of_triangles[3] = {fresh(node.n[3]), fresh(node.n[3]), fresh(node.n[3])};
  const std::array<std::int64_t, 4> sizes{node.n[0], node.n[0], node.n[1], 2 * node.n[4]};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (node.edges[i].exists()) result[i] = g.alloc(sizes[i], i == 3 ? node.w[1] : node.w[0], Name::kGrad);
}

// What backward needs, in fp32 and, of everything that a product multiplies, as autocast's 16-bit copies.
Var delta_rule(Graph& g, const DeltaShape& s, const Var& q, const Var& k, const Var& v, const Var& gates) {
  const std::int32_t node = g.node(delta_backward, q, k, v, gates);
  if (node >= 0) {
    g.at(node).n = {s.keys(),      s.values(),         s.states(),
                    s.triangles(), s.tokens * s.heads, s.states() / std::max<std::int64_t>(1, s.chunks_per_sequence)};
    g.at(node).w = {v.width, gates.width};
  }
  const auto keep = [&](std::int64_t elements, std::uint8_t width) {
    g.save(node, g.alloc(elements, width, Name::kAttentionOutput));
  };
  keep(6 * s.keys(), 4);    // queries and keys as normed, padded, weighted and decayed
  keep(2 * s.values(), 4);  // padded and solved
  keep(2 * s.triangles(), 4);
  const Var held = g.alloc(3 * s.keys() + 2 * s.values() + s.triangles(), 4, Name::kAttentionTemp);  // by the function
  const std::uint8_t width = g.autocast ? 2 : 4;
  const std::int64_t copies = g.autocast ? 4 : 0;
  keep((copies + 3) * s.keys(), width);
  keep(2 * s.values(), width);
  keep(3 * s.triangles(), width);
  keep(s.states() * (g.autocast ? 2 : 0), 2);
  keep(s.states(), 4);
  Var y = g.alloc(s.values(), v.width, Name::kAttentionOutput);
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
  const DeltaShape shape{tokens,
                         a.linear_value_heads / m.tensor,
                         a.linear_key_dim,
                         a.linear_value_dim,
                         m.batch * ceil_div(m.sequence, kChunk),
                         ceil_div(m.sequence, kChunk)};
  Var y = delta_rule(g, shape, q, k, qkv[2], gates);
  q.reset();
  k.reset();
  Var normed = norm(g, m, y, tokens * shape.heads, ids.q_norm, Name::kAttentionOutput);
  Var gated = mul(g, normed, keeps_input(g, parts[1], Name::kActivation), Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, m, gated, ids.o, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
