// SPDX-License-Identifier: Apache-2.0
// MiniMax's lightning attention as Transformers writes it: block after block, tokens of a block look at one another
// through decaying scores, and at those before it through a state that is carried on.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Var lightning_attention(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x) {
  const std::int64_t heads = a.heads / m.tensor;
  const std::int64_t lines = m.batch * heads;
  const std::int64_t part = m.tokens() * heads * a.head_dim;
  g.tape().at(Operation::kQkvLinear);
  const Var packed = keeps_input(g, project(g, m, x, ids.qkv, Name::kQkv), Name::kQkv);
  auto qkv = split(g, packed, {part, part, part}, false);
  for (Var& one : qkv) one = to_heads(g, one);
  g.tape().at(Operation::kCoreAttention);
  const std::uint8_t decay_width = m.width;  // of the buffers
  // A batch of one is a stack of matrices as it lies; otherwise every factor of a product is copied.
  const auto factor = [&](const Var& v) {
    Var laid_out = m.batch > 1 ? copy(g, v, Name::kHidden) : v;
    laid_out.head_major = true;
    return laid_out;
  };
  const auto decayed = [&](const Var& v, std::int64_t elements) {
    Var y = mul(g, v, g.constant(elements, decay_width), Name::kAttentionTemp);
    y.head_major = true;
    return y;
  };
  Var state = g.alloc(lines * a.head_dim * a.head_dim, packed.width, Name::kHidden);
  state.head_major = true;
  std::vector<Var> pieces;
  Var output, scores;                         // scores of a block live until the next has its own
  constexpr std::int64_t kMostBlocks = 4096;  // more are counted as larger ones
  const std::int64_t usual = std::max(a.linear_block, ceil_div(m.sequence, kMostBlocks));
  for (std::int64_t start = 0; start < m.sequence; start += usual) {
    const std::int64_t block = std::min(usual, m.sequence - start);
    const std::int64_t size = lines * block * a.head_dim;
    const Var q = slice(g, qkv[0], size, false);
    const Var k = slice(g, qkv[1], size, false);
    const Var v = slice(g, qkv[2], size, false);
    g.runs_small(3);  // the block's own decay
    scores = batched_matmul(g, factor(q), factor(k), {lines, block, a.head_dim, block}, Name::kAttentionTemp);
    Var inside;
    {
      const Var faded = decayed(scores, heads * block * block);
      inside = batched_matmul(g, faded, factor(v), {lines, block, block, a.head_dim}, Name::kAttentionTemp);
    }
    const Var across = batched_matmul(g, decayed(q, heads * block), state, {lines, block, a.head_dim, a.head_dim},
                                      Name::kAttentionTemp);
    pieces.push_back(add(g, across, inside, Name::kAttentionOutput));
    output = append(g, output, pieces.back());
    // Behind the last block nobody reads the state: what its gradient would need goes with it.
    const bool needs_gradient = std::exchange(g.grad_enabled, g.grad_enabled && start + usual < m.sequence);
    const Var next = batched_matmul(g, decayed(k, heads * block), factor(v), {lines, a.head_dim, block, a.head_dim},
                                    Name::kAttentionTemp);
    state = add(g, decayed(state, heads), next, Name::kHidden);
    state.head_major = true;
    g.grad_enabled = needs_gradient;
  }
  output = copy(g, output, Name::kAttentionOutput);
  pieces.clear();
  output = copy(g, output, Name::kAttentionOutput);  // from heads to tokens
  output = norm(g, m, output, m.tokens(), ids.q_norm, Name::kNormOutput);
  const Var open = keeps_result(g, project(g, m, x, ids.gate_out, Name::kActivation), Name::kActivation);
  output = mul(g, open, output, Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, m, output, ids.o, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
