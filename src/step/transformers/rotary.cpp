// SPDX-License-Identifier: Apache-2.0
// Rotary positions: the tables of a pass, and their application as Transformers writes it, with partial
// rotation where only part of a head turns.
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

std::int64_t rotary_dim(const Model& m, std::int64_t head_dim) {
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * m.family.rotary);
  return dim / 2 * 2;
}

Var turn(Graph& g, const Var& x, const Shared& shared) {
  Var straight = mul(g, x, shared.cos, Name::kRopeTemp);
  Var half;
  {
    Var x1 = slice(g, x, x.elements / 2);
    Var x2 = slice(g, x, x.elements / 2);
    Var negated = neg(g, x2, Name::kRopeTemp);
    half = cat(g, negated, x1, Name::kRopeTemp);
  }
  Var across = mul(g, half, shared.sin, Name::kRopeTemp);
  half.reset();
  Var y = add(g, straight, across, Name::kQuery);
  straight.reset();
  across.reset();
  return y;
}

}  // namespace

void make_rotary(Graph& g, const Model& m, Shared& shared) {
  const model::Attention& a = m.architecture().kinds[0].attention;
  const std::int64_t head = a.kind == model::AttentionKind::kMla ? a.qk_rope_dim : a.head_dim;
  const std::int64_t n = m.sequence * (a.kind == model::AttentionKind::kMla ? head : rotary_dim(m, head));
  Var positions = g.alloc(m.sequence, 4, Name::kRopeTemp);
  Var frequencies = g.alloc(n / 2, 4, Name::kRopeTemp);
  g.first_forward_product(false);
  Var both = g.alloc(n, 4, Name::kRopeTemp);
  Var cos, sin;
  for (Var* table : {&cos, &sin}) {
    Var raw = g.alloc(n, 4, Name::kRopeTemp);
    *table = g.alloc(n, 4, Name::kRope);
  }
  // Tables take the dtype of the hidden states: fp32 under autocast.
  shared.cos = cast(g, cos, m.width, Name::kRope);
  shared.sin = cast(g, sin, m.width, Name::kRope);
  positions.reset();
  frequencies.reset();
  both.reset();
}

Var rotate(Graph& g, const Model& m, const Var& x, const Shared& shared, std::int64_t head_dim) {
  const std::int64_t dim = rotary_dim(m, head_dim);
  if (dim == head_dim) return turn(g, x, shared);
  Var turning = slice(g, x, x.elements / head_dim * dim);
  Var still = slice(g, x, x.elements / head_dim * (head_dim - dim));
  Var turned = turn(g, turning, shared);
  return cat(g, turned, still, Name::kQuery);
}

}  // namespace plimsoll::step::transformers
