// SPDX-License-Identifier: Apache-2.0
// Attention masks: skipped where the causal flag says everything, else one bool mask per pass
// (facts other-frameworks-memory.md 2.3).
#include <utility>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Looks for packed sequences in the position ids: a few int64 per token, gone at once.
void look_for_packing(Graph& g, const Model& m) {
  const std::int64_t tokens = m.tokens();
  Var first = g.make(m.batch, 8, Name::kTokens);
  Var padded = g.make(tokens + m.batch, 8, Name::kTokens);
  Var difference = g.make(tokens, 8, Name::kTokens);
  padded.reset();
  Var jumps = g.make(tokens, 1, Name::kTokens);
  Var indices = g.make(tokens, 8, Name::kTokens);
  g.tape().touch(8 * tokens, Name::kTokens);
  g.runs_small(4);  // the conversion of what is summed, a comparison, whether all are equal, and its copy to the host
  jumps.reset();
}

Var build(Graph& g, const Model& m, bool sliding) {
  const std::int64_t square = m.sequence * m.sequence;
  Var causal;
  if (sliding) {
    Var window = g.alloc(square, 1, Name::kMask);
    causal = g.alloc(square, 1, Name::kMask);
    window.reset();
  }
  Var triangle = g.alloc(square, 1, Name::kMask);
  Var both = g.alloc(square, 1, Name::kMask);
  triangle.reset();
  causal = std::move(both);
  // A row per sequence only where padding makes them differ.
  if (!m.job->batch.padding_mask) return causal;
  Var padding = g.alloc(m.tokens(), 1, Name::kMask);
  return g.alloc(m.batch * square, 1, Name::kMask);
}

// Eager attention adds the mask in the compute dtype, always; a compiled graph makes it once for all layers.
Var additive(Graph& g, const Model& m, const Var& mask) {
  if (mask && m.compiled) return g.alloc(m.batch * m.sequence * m.sequence, m.autocast ? 2 : m.width, Name::kMask);
  if (!mask || !m.eager_attention || m.family.scores == Scores::kFilled) return mask;
  return g.alloc(m.batch * m.sequence * m.sequence, m.width, Name::kMask);
}

// Biases by distance: one value per head and key, and, where a fused kernel takes them, spread over all queries.
void make_position_biases(Graph& g, const Model& m, Shared& shared) {
  const std::int64_t heads = m.architecture().kinds.front().attention.heads;
  if (m.family.scores == Scores::kFilled) {
    shared.positions = g.alloc(heads * m.architecture().max_positions, 4, Name::kMask);
    return;
  }
  const std::int64_t rows = m.batch * heads * m.sequence;
  Var distance = g.alloc(m.tokens(), 8, Name::kMask);
  Var wide = g.alloc(rows, 4, Name::kMask);
  shared.positions = m.width == 4 ? wide : g.alloc(rows, m.width, Name::kMask);
  if (m.eager_attention) return;
  Var additive = g.alloc(m.batch * m.sequence * m.sequence, m.width, Name::kMask);
  Var scaled = g.alloc(rows, m.width, Name::kMask);
  Var masked = g.alloc(m.batch * m.sequence * m.sequence, 1, Name::kMask);
  shared.full_mask = g.alloc(rows * m.sequence, m.width, Name::kMask);
}

}  // namespace

void make_masks(Graph& g, const Model& m, Shared& shared) {
  bool any_full = false;
  bool any_window = false;
  bool any_reached = false;
  any_full = m.architecture().shared_block != nullptr;
  for (const model::Layer& layer : m.architecture().kinds) {
    const bool sees_all = !layer.attention.causal && layer.attention.sliding_window == 0;
    if (sees_all && !m.job->batch.padding_mask && !m.eager_attention) continue;
    const model::AttentionKind kind = layer.attention.kind;
    if (kind != model::AttentionKind::kGqa && kind != model::AttentionKind::kMla &&
        kind != model::AttentionKind::kLinear)
      continue;
    const std::int64_t window = layer.attention.sliding_window;
    (window > 0 ? any_window : any_full) = true;
    any_reached = any_reached || (window > 0 && m.sequence >= window);
  }
  const bool always = m.job->batch.padding_mask || m.eager_attention || m.family.masks_always || m.compiled;
  if (any_full) {
    if (!m.job->batch.padding_mask) look_for_packing(g, m);
    if (always) shared.full_mask = additive(g, m, build(g, m, false));
  }
  if (any_window) {
    if (!m.job->batch.padding_mask) look_for_packing(g, m);
    if (always || any_reached) shared.sliding_mask = additive(g, m, build(g, m, true));
  }
  if (m.architecture().alibi) make_position_biases(g, m, shared);
}

Var learned_bias(Graph& g, const Model& m, std::int32_t table) {
  const std::int64_t pairs = m.sequence * m.sequence;
  const std::int64_t heads = m.architecture().kinds.front().attention.heads;
  Var buckets;
  {
    const Var distance = g.alloc(pairs, 8, Name::kMask);
    buckets = g.alloc(pairs, 8, Name::kMask);
    const Var absolute = g.alloc(pairs, 8, Name::kMask);
    const Var is_small = g.alloc(pairs, 1, Name::kMask);
    const Var far = g.alloc(pairs, 8, Name::kMask);
    const Var chosen = g.alloc(pairs, 8, Name::kMask);
  }
  return embedding(g, buckets, pairs, heads, table);
}

Var empty_bias(Graph& g, const Model& m, std::int64_t keys, std::uint8_t width) {
  return g.alloc(m.architecture().kinds.front().attention.heads * m.sequence * keys, width, Name::kMask);
}

}  // namespace plimsoll::step::transformers
