// SPDX-License-Identifier: Apache-2.0
// Attention without a fused kernel: scores of every pair of tokens pass through memory, in the chain of operations
// that each family writes.
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// A learned column joins the softmax and is cut off again (gpt-oss).
Var with_sinks(Graph& g, const AttentionShape& s, const Var& weights, std::int32_t sinks) {
  const std::int64_t rows = s.batch * s.heads * s.sequence;
  const Var column = expand_view(g, g.use(sinks), rows);
  g.scattered();  // rows of one element more begin at odd places, and no kernel can load them as vectors
  Var joined = cat(g, weights, column, Name::kAttentionTemp);
  {
    Var largest = max_rows(g, joined, rows, Name::kAttentionTemp);
    joined = add(g, joined, largest, Name::kAttentionTemp);
  }
  g.scattered();
  Var probabilities = softmax(g, joined, Name::kScores);
  joined.reset();
  return slice(g, probabilities, rows * s.sequence, true);
}

Var capped(Graph& g, Var weights) {
  weights = scale(g, weights, Name::kAttentionTemp);
  weights = keeps_result(g, weights, Name::kScores);
  return scale(g, weights, Name::kAttentionTemp);
}

// Scaled and masked products, before the softmax.
Var masked_scores(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, const Var& q,
                  const Var& keys, const Var& mask, const Shared& shared) {
  const BatchShape product{s.batch * s.heads, s.sequence, s.head_dim, s.sequence};
  Var weights = batched_matmul(g, q, keys, product, Name::kAttentionTemp);
  if (m.family.scores != Scores::kBiased) weights = scale(g, weights, Name::kAttentionTemp);
  if (a.softcap) weights = capped(g, std::move(weights));
  if (m.family.scores == Scores::kFilled) {
    weights = add(g, weights, shared.positions, Name::kAttentionTemp);
    return mask ? masked_fill(g, weights, mask, false, Name::kAttentionTemp) : weights;
  }
  return mask ? add(g, weights, mask, Name::kAttentionTemp) : weights;
}

Var probabilities_of(Graph& g, const Model& m, const Var& weights, std::uint8_t width) {
  switch (m.family.scores) {
    case Scores::kNarrow:
      // GPT-2 leaves the choice to autocast, the others name the dtype.
      if (m.family.conv1d && g.autocast) break;
      return softmax(g, cast(g, weights, width, Name::kAttentionTemp), Name::kScores);
    case Scores::kWide:
      if (g.autocast) break;
      return cast(g, softmax(g, weights, Name::kScores), width, Name::kScores);
    default:
      break;
  }
  const Var probabilities = softmax_fp32(g, weights, Name::kScores);
  return cast(g, probabilities, width, Name::kScores);
}

// The chain inside one function of PyTorch, in fp32; what it does not save dies when it returns.
Var unfused_kernel(Graph& g, const AttentionShape& s, const Var& q, const Var& k, const Var& v, const Var& mask,
                   double dropout_share) {
  const std::int64_t groups = s.heads / s.kv_heads;
  const std::int64_t pairs = s.batch * s.heads * s.sequence * s.sequence;
  constexpr std::int64_t kWide = 4;  // bytes
  // A bias by head is added as it is, one for all heads is made of a mask.
  const bool by_head = mask.elements >= s.heads * s.sequence * s.sequence;
  const Var made = g.alloc(mask && !by_head ? s.batch * s.sequence * s.sequence : 0, q.width, Name::kMask);
  // Groups of more than one head are repeated before anything else; the causal flag becomes a mask in fp32.
  const bool repeats = groups > 1 && s.kv_heads > 1;
  Var wide_q = cast(g, q, 4, Name::kQuery);
  Var wide_k = cast(g, k, 4, Name::kKey);
  Var wide_v = cast(g, v, 4, Name::kValue);
  const bool outer = g.autocast;
  g.autocast = false;  // the kernels below are inside one function, which autocast does not enter
  Var scores;
  Var scaled_q = scale(g, wide_q, Name::kQuery);
  Var causal, repeated_k, repeated_v;
  if (!mask) {
    constexpr double kMadeOfFlag = 5;  // ones, its lower half, two numbers, and which of them stands where
    g.launches_inside(kMadeOfFlag);
    const Var ones = g.alloc(s.sequence * s.sequence, 1, Name::kMask);
    causal = g.alloc(s.sequence * s.sequence, 4, Name::kMask);
  }
  if (repeats) {
    repeated_k = expand(g, wide_k, groups, Name::kKey);
    repeated_v = expand(g, wide_v, groups, Name::kValue);
  }
  {
    const Var scaled_k = scale(g, repeats ? repeated_k : wide_k, Name::kKey);
    const Var keys = repeats ? scaled_k : expand(g, scaled_k, groups, Name::kKey);
    const BatchShape product{s.batch * s.heads, s.sequence, s.head_dim, s.sequence};
    scores = batched_matmul(g, scaled_q, keys, product, Name::kAttentionTemp);
  }
  if (by_head) scores = add_bias(g, scores, mask);
  if (g.meter != nullptr && !by_head && !g.stopped()) g.meter->in_place(2 * kWide * pairs);  // the mask is added
  Var probabilities = softmax(g, scores, Name::kScores);
  // Rows that are masked whole are looked for, and set to zero.
  if (g.meter != nullptr && !g.stopped()) {
    g.meter->in_place((kWide + 1) * pairs);
    g.meter->in_place(2 * kWide * pairs);
    g.launches_inside(2);
  }
  if (!g.stopped()) g.tape().touch(pairs, Name::kAttentionTemp);  // rows that are masked whole
  scores.reset();
  probabilities = dropout(g, probabilities, dropout_share, Name::kScores);
  const Var returned = g.alloc(q.width < 4 ? pairs : 0, q.width, Name::kAttentionTemp);
  Var values = repeats ? repeated_v : expand(g, wide_v, groups, Name::kValue);
  const BatchShape mix{s.batch * s.heads, s.sequence, s.sequence, s.value_dim};
  Var output = batched_matmul(g, probabilities, values, mix, Name::kHidden);
  g.autocast = outer;
  Var narrow = cast(g, output, q.width, Name::kHidden);
  // What it returns beside the output goes last.
  for (Var* done : {&output, &values, &scaled_q, &wide_v, &wide_k, &wide_q}) done->reset();
  return narrow;
}

}  // namespace

Var math_attention(Graph& g, const AttentionShape& s, const Var& q, const Var& k, const Var& v, const Var& mask,
                   double dropout_share) {
  // The function returns before its caller lays the result out.
  const Var output = unfused_kernel(g, s, q, k, v, mask, dropout_share);
  return copy(g, output, Name::kAttentionOutput);
}

Var eager_attention(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, std::int32_t sinks,
                    const Var& q, const Var& k, const Var& v, const Shared& shared) {
  const std::int64_t groups = s.heads / s.kv_heads;
  const Var& mask = a.sliding_window > 0 ? shared.sliding_mask : shared.full_mask;
  const Var keys = expand(g, k, groups, Name::kKey);
  const Var values = expand(g, v, groups, Name::kValue);
  const bool wide = m.family.scores == Scores::kWide;
  Var weights;
  {
    const Var left = wide ? cast(g, q, 4, Name::kCastInput) : q;
    const Var right = wide ? cast(g, keys, 4, Name::kCastInput) : keys;
    weights = masked_scores(g, m, s, a, left, right, mask, shared);
  }
  const bool like_query = m.family.scores == Scores::kStandard || m.family.scores == Scores::kBiased;
  weights =
      sinks >= 0 ? with_sinks(g, s, weights, sinks) : probabilities_of(g, m, weights, like_query ? q.width : v.width);
  weights = dropout(g, weights, m.architecture().attention_dropout, Name::kScores);
  const BatchShape mix{s.batch * s.heads, s.sequence, s.sequence, s.value_dim};
  Var output = batched_matmul(g, weights, values, mix, Name::kHidden);
  return copy(g, output, Name::kAttentionOutput);
}

}  // namespace plimsoll::step::transformers
