// SPDX-License-Identifier: Apache-2.0
// Zamba 2's block of attention and MLP, whose weights several layers use: it reads the residual stream and the
// embedding side by side, and each layer adds low-rank products of its own (facts other-frameworks-memory.md 2.12).
#include "model/parts.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

Var adapted(Graph& g, const Model& m, const Var& x, const Var& base, const std::array<LinearIds, 2>& ids, Name name) {
  if (ids[0].w < 0) return base;
  const Var down = project(g, m, x, ids[0], Name::kAdapterInput);
  return add(g, base, project(g, m, down, ids[1], name), name);
}

Var block_attention(Graph& g, const Model& m, const BlockIds& ids, const Shared& shared, const Var& x) {
  const model::Attention& a = m.architecture().shared_block->attention;
  g.tape().at(Operation::kQkvLinear);
  Var q = project(g, m, x, ids.q, Name::kQuery);
  Var k = project(g, m, x, ids.k, Name::kKey);
  Var v = project(g, m, x, ids.v, Name::kValue);
  q = to_heads(g, adapted(g, m, x, q, ids.adapters[0], Name::kQuery));
  k = to_heads(g, adapted(g, m, x, k, ids.adapters[1], Name::kKey));
  v = to_heads(g, adapted(g, m, x, v, ids.adapters[2], Name::kValue));
  g.tape().at(Operation::kRotary);
  if (m.architecture().rope) (void)rotate(g, m, shared, a.head_dim, q, k);
  const AttentionShape shape{m.batch, m.sequence, a.heads, a.kv_heads, a.head_dim, a.head_dim, 1};
  const Var output = attend(g, m, shape, a, -1, q, k, v, shared);
  g.tape().at(Operation::kProjection);
  return project(g, m, output, ids.o, Name::kHidden);
}

Var block_mlp(Graph& g, const Model& m, const BlockIds& ids, const Var& x) {
  const model::FeedForward& ffn = m.architecture().shared_block->ffn;
  g.tape().at(Operation::kFc1Linear);
  Var up = project(g, m, x, ids.gate_up, Name::kFc1);
  up = adapted(g, m, x, up, ids.adapters[3], Name::kFc1);
  auto parts = split(g, up, {up.elements / 2, up.elements / 2, 0}, false);
  g.tape().at(Operation::kActivationFunction);
  const Var product = mul(g, activate(g, m, ffn.activation, parts[0]), parts[1], Name::kActivation);
  g.tape().at(Operation::kFc2Linear);
  return project(g, m, product, ids.down, Name::kHidden);
}

}  // namespace

Var shared_block(Graph& g, const Model& m, const BlockIds& ids, const Shared& shared, const Var& x) {
  const std::int64_t tokens = m.tokens();
  g.tape().at(Operation::kNorm1);
  Var hidden = cat(g, x, shared.embeds, Name::kNormInput);
  hidden.head_major = false;
  hidden = norm(g, m, hidden, tokens, ids.norm[0], Name::kNormOutput);
  hidden = block_attention(g, m, ids, shared, hidden);
  g.tape().at(Operation::kNorm2);
  hidden = norm(g, m, hidden, tokens, ids.norm[1], Name::kNormOutput);
  hidden = block_mlp(g, m, ids, hidden);
  return project(g, m, hidden, ids.joint, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
