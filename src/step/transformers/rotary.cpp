// SPDX-License-Identifier: Apache-2.0
// Rotary positions: the tables of a pass, and their application as Transformers writes it, with partial
// rotation where only part of a head turns.
#include <array>

#include "model/softmax_attention.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

std::int64_t rotary_dim(const Model& m, std::int64_t head_dim) {
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * m.architecture().rope_share);
  return dim / 2 * 2;
}

// Halves of a head are turned apart: first * cos - second * sin, second * cos + first * sin.
Var turn_halves(Graph& g, const Var& x, const Shared& shared) {
  const std::int64_t half = x.elements / 2;
  auto parts = split(g, x, {half, half, 0}, true);
  std::array<Var, 2> turned;
  for (std::size_t i = 0; i < 2; ++i) {
    Var straight = mul(g, parts[i], shared.cos, Name::kRopeTemp);
    Var across = mul(g, parts[1 - i], shared.sin, Name::kRopeTemp);
    turned[i] = add(g, straight, across, Name::kRopeTemp);
  }
  return cat(g, turned[0], turned[1], Name::kQuery);
}

// torchtitan: as complex numbers in fp32, query and key side by side, and every expression lives to the function's end.
std::array<Var, 4> rotate_together(Graph& g, const Shared& shared, Var& q, Var& k) {
  Var wide_q = cast(g, q, 4, Name::kRopeTemp);
  Var wide_k = cast(g, k, 4, Name::kRopeTemp);
  Var turned_q = mul_complex(g, wide_q, shared.cos, Name::kRopeTemp);
  Var turned_k = mul_complex(g, wide_k, shared.cos, Name::kRopeTemp);
  Var new_q = cast(g, turned_q, q.width, Name::kQuery);
  Var new_k = cast(g, turned_k, k.width, Name::kKey);
  for (Var* done : {&wide_q, &wide_k, &turned_q, &turned_k}) done->reset();
  q = std::move(new_q);
  k = std::move(new_k);
  return {};
}

// GPT-J: tables are gathered from a buffer and widened to pairs in every layer, for keys, then for queries.
void rotate_pairs(Graph& g, const Model& m, std::int64_t head_dim, std::int64_t dim, Var& q, Var& k) {
  const std::int64_t n = m.sequence * dim;
  Var both;
  {
    Var repeated = g.alloc(m.architecture().max_positions * dim, 4, Name::kRopeTemp);
    Var index = g.alloc(n, 8, Name::kRopeTemp);
    Var raw = g.alloc(n, 4, Name::kRopeTemp);
    both = k.width == 4 ? raw : g.alloc(n, k.width, Name::kRope);
  }
  const auto part = [&](const Var& x, std::int64_t dims) { return slice(g, x, x.elements / head_dim * dims, false); };
  const bool whole = dim == head_dim;
  const Var k_turning = whole ? k : part(k, dim);
  const Var k_still = whole ? Var{} : part(k, head_dim - dim);
  const Var q_turning = whole ? q : part(q, dim);
  const Var q_still = whole ? Var{} : part(q, head_dim - dim);
  Var turned[2];
  for (int i = 0; i < 2; ++i) {
    Shared tables;
    tables.sin = g.alloc(n, k.width, Name::kRope);
    tables.cos = g.alloc(n, k.width, Name::kRope);
    turned[i] = turn(g, i == 0 ? k_turning : q_turning, tables);
  }
  k = whole ? turned[0] : cat(g, turned[0], k_still, Name::kKey);
  q = whole ? turned[1] : cat(g, turned[1], q_still, Name::kQuery);
  k.head_major = q.head_major = false;
}

void make_tables(Graph& g, const Model& m, Shared& shared) {
  const model::Attention& a = model::softmax_attention(m.architecture());
  const std::int64_t head = a.kind == model::AttentionKind::kMla ? a.qk_rope_dim : a.head_dim;
  if (m.family.rotation == Rotation::kPairs) return;  // every layer makes its own
  if (m.family.rotation == Rotation::kComplex) {
    const std::int64_t n = m.sequence * head;
    const Var angles = g.alloc(n / 2, 4, Name::kRopeTemp);
    const Var ones = g.alloc(n / 2, 4, Name::kRopeTemp);
    const Var turns = g.alloc(n, 4, Name::kRopeTemp);
    shared.cos = g.alloc(n, 4, Name::kRope);
    return;
  }
  const bool halves = m.family.rotation == Rotation::kHalves;
  const std::int64_t dim = a.kind == model::AttentionKind::kMla ? head : rotary_dim(m, head);
  const std::int64_t axes = m.family.cuts_tables ? 3 : 1;  // time, height, width
  const std::int64_t sequences = m.family.tables_by_sequence ? m.batch : 1;
  const std::int64_t n = axes * sequences * m.sequence * (halves ? dim / 2 : dim);
  Var positions = g.make(m.sequence, 4, Name::kRopeTemp);
  Var frequencies = g.make(halves ? n : n / 2, 4, Name::kRopeTemp);
  g.first_forward_product(false);
  Var both = halves ? Var{} : g.make(n, 4, Name::kRopeTemp);
  Var cos, sin;
  for (Var* table : {&cos, &sin}) {
    Var raw = g.make(n, 4, Name::kRopeTemp);
    *table = g.make(n, 4, Name::kRope);
  }
  // Tables take the dtype of the hidden states; of several streams that is fp32 under autocast.
  const bool wide = m.family.wide_tables || (m.architecture().streams != nullptr && m.autocast);
  const std::uint8_t width = wide ? std::uint8_t{4} : m.width;
  shared.cos = cast(g, cos, width, Name::kRope);
  shared.sin = cast(g, sin, width, Name::kRope);
  positions.reset();
  frequencies.reset();
  both.reset();
}

// What a layer turns with: the pass's tables, or their halves repeated.
Shared own_tables(Graph& g, const Model& m, const Shared& shared) {
  const auto own = [&](const Var& table) {
    return m.family.repeats_tables ? g.alloc(table.elements, table.width, Name::kRope) : table;
  };
  Shared tables;
  tables.cos = own(shared.cos);
  tables.sin = own(shared.sin);
  return tables;
}

}  // namespace

Var turn(Graph& g, const Var& x, const Shared& shared, Widening widening) {
  const auto widened = [&](bool is, const Var& value) { return is ? cast(g, value, 4, Name::kRopeTemp) : value; };
  const bool each = widening == Widening::kEachUse;
  Var straight;
  {
    const Var input = widened(each || widening == Widening::kHalves, x);
    straight = mul(g, input, shared.cos, Name::kRopeTemp);
  }
  Var half;
  {
    const Var input = widened(each, x);
    Var x1 = slice(g, input, x.elements / 2, true);
    Var x2 = slice(g, input, x.elements / 2, true);
    Var negated = neg(g, x2, Name::kRopeTemp);
    half = cat(g, negated, x1, Name::kRopeTemp);
    negated.reset();
  }
  half = widened(widening == Widening::kHalves, half);
  Var across = mul(g, half, shared.sin, Name::kRopeTemp);
  half.reset();
  Var y = add(g, straight, across, Name::kQuery);
  straight.reset();
  across.reset();
  return y;
}

void hold_frequencies(const Model& m, Tape& tape) {
  if (!m.torchtitan || !m.architecture().rope) return;
  tape.alloc(m.job->batch.seq_length * model::softmax_attention(m.architecture()).head_dim * 4, Name::kRope);
}

// The decays of a layer of MiniMax: for every two places of a block, for each place towards both its ends, for the
// block.
void hold_decays(const Model& m, const model::Attention& a, Tape& tape) {
  if (a.kind != model::AttentionKind::kLightning) return;
  const std::int64_t heads = a.heads / m.tensor * m.width;
  for (const std::int64_t each : {std::int64_t{1}, a.linear_block, a.linear_block, a.linear_block * a.linear_block})
    static_cast<void>(tape.alloc(heads * each, Name::kWeight));
}

// GPT-J: a table of sines and cosines in every layer. GPT-BigCode: a byte for every pair of positions.
void hold_buffers(const Model& m, Tape& tape) {
  const model::Architecture& a = m.architecture();
  if (m.family.holds_triangle) static_cast<void>(tape.alloc(a.position_rows * a.position_rows, Name::kWeight));
  for (std::int64_t i = 0; i < m.depth(); ++i) hold_decays(m, a.layer(m.first_layer + i).attention, tape);
  if (m.family.rotation != Rotation::kPairs) return;
  const std::int64_t table = a.max_positions * rotary_dim(m, model::softmax_attention(a).head_dim) * 4;
  for (std::int64_t i = 0; i < m.depth(); ++i) static_cast<void>(tape.alloc(table, Name::kWeight));
}

void make_rotary(Graph& g, const Model& m, Shared& shared) {
  make_tables(g, m, shared);
  if (m.architecture().streams == nullptr && !m.family.local_tables) return;
  // Windowed layers have tables of another base.
  Shared local;
  make_tables(g, m, local);
  shared.local_cos = std::move(local.cos);
  shared.local_sin = std::move(local.sin);
  if (m.architecture().streams != nullptr) shared.keys = std::make_shared<KeptKeys>();
}

std::array<Var, 4> rotate(Graph& g, const Model& m, const Shared& shared, std::int64_t head_dim, Var& q, Var& k) {
  const std::int64_t dim = rotary_dim(m, head_dim);
  if (m.liger) {
    q = in_place(g, q, shared.cos, shared.sin);
    k = in_place(g, k, shared.cos, shared.sin);
    return {};
  }
  if (m.torchtitan) return rotate_together(g, shared, q, k);
  if (m.family.rotation == Rotation::kComplex) {  // as complex numbers in fp32
    for (Var* x : {&q, &k}) {
      Var wide = cast(g, *x, 4, Name::kRopeTemp);
      Var turned = mul(g, wide, shared.cos, Name::kRopeTemp);
      *x = cast(g, turned, x->width, Name::kQuery);
    }
    return {};
  }
  if (m.family.rotation == Rotation::kPairs) {
    rotate_pairs(g, m, head_dim, dim, q, k);
    return {};
  }
  if (m.family.rotation == Rotation::kHalves) {
    q = turn_halves(g, q, shared);
    k = turn_halves(g, k, shared);
    return {};
  }
  if (m.family.cuts_tables) {  // sections of the three axes are joined again in every layer
    Shared own;
    own.cos = g.alloc(shared.cos.elements / 3, shared.cos.width, Name::kRope);
    own.sin = g.alloc(shared.sin.elements / 3, shared.sin.width, Name::kRope);
    Var turned_q = turn(g, q, own);
    k = turn(g, k, own);
    q = std::move(turned_q);
    return {};
  }
  if (m.family.rotation == Rotation::kWhole) {
    const std::uint8_t width = q.width;
    const Shared tables = own_tables(g, m, shared);
    const Widening widening = m.family.widening;
    const bool before = widening == Widening::kBefore;
    Var wide_q = before ? cast(g, q, 4, Name::kRopeTemp) : q;
    Var wide_k = before ? cast(g, k, 4, Name::kRopeTemp) : k;
    Var turned_q = turn(g, wide_q, tables, widening);
    Var turned_k = turn(g, wide_k, tables, widening);
    if (m.family.wide_rotation) {
      Var narrow_q = cast(g, turned_q, width, Name::kQuery);
      Var narrow_k = cast(g, turned_k, width, Name::kKey);
      for (Var* done : {&wide_q, &wide_k}) done->reset();
      turned_q = std::move(narrow_q);
      turned_k = std::move(narrow_k);
    }
    for (Var* done : {&wide_q, &wide_k}) done->reset();
    q = std::move(turned_q);
    k = std::move(turned_k);
    return {};
  }
  const auto part = [&](const Var& x, std::int64_t dims) { return slice(g, x, x.elements / head_dim * dims, true); };
  Var q_turning = part(q, dim);
  Var q_still = part(q, head_dim - dim);
  Var k_turning = part(k, dim);
  Var k_still = part(k, head_dim - dim);
  if (m.family.rotation != Rotation::kJoinEach) {
    const Shared tables = own_tables(g, m, shared);
    q_turning = turn(g, q_turning, tables);
    k_turning = turn(g, k_turning, tables);
    const bool held = m.family.rotation == Rotation::kJoinBothHeld;
    Var joined_q = cat(g, q_turning, q_still, Name::kQuery);
    if (!held) q_turning.reset();
    Var joined_k = cat(g, k_turning, k_still, Name::kKey);
    if (!held)
      for (Var* done : {&k_turning, &q_still, &k_still}) done->reset();
    q = std::move(joined_q);
    k = std::move(joined_k);
    if (!held) return {};
    return {q_turning, q_still, k_turning, k_still};
  }
  Var turned_q;
  {
    Var turned = turn(g, q_turning, shared);
    turned_q = cat(g, turned, q_still, Name::kQuery);
  }
  Var turned = turn(g, k_turning, shared);
  Var turned_k = cat(g, turned, k_still, Name::kKey);
  turned.reset();
  for (Var* done : {&q_turning, &q_still, &k_turning, &k_still}) done->reset();
  q = std::move(turned_q);
  k = std::move(turned_k);
  return {};
}

}  // namespace plimsoll::step::transformers
