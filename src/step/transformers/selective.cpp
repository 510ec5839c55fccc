// SPDX-License-Identifier: Apache-2.0
// A Mamba mixer of the first kind as Transformers writes it without the kernels of mamba-ssm: a causal convolution, and
// a scan whose decays and inputs are laid out for every token, channel and state before a loop in Python walks them.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// The loop of a longer sequence is walked in this many pieces of several tokens each.
constexpr std::int64_t kMostPieces = 4096;

// state = decay * state + input; output = state @ C. n: elements of the state, of its output and of C; w: the width of
// what is multiplied. grads: of the state, which the next token gave, and of the output.
void token_backward(Graph& g, Node& node, Grads& result) {
  constexpr int kOperations = 6;
  g.runs_small(kOperations);
  const std::uint8_t width = node.w[0];
  {
    const Var of_output = g.alloc(node.n[1], width, Name::kGrad);
    const Var of_narrow = g.alloc(node.n[0], width, Name::kGrad);
    if (node.edges[2].exists()) result[2] = g.alloc(node.n[2], width, Name::kGrad);
    Var of_state = g.alloc(width < 4 ? node.n[0] : 0, 4, Name::kGrad);
    if (!node.grads[0]) node.grads[0] = of_state ? std::move(of_state) : of_narrow;
  }
  if (node.edges[1].exists()) result[1] = node.grads[0];
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[0], 4, Name::kGrad);
  if (node.edges[3].exists()) result[3] = g.alloc(node.n[0], 4, Name::kGrad);
}

// One token after the other. Each takes its part of decays, inputs and C, whose gradients are tensors of the full size
// that are added up.
Var walk(Graph& g, const Model& m, const Var& decays, const Var& inputs, const Var& c, std::int64_t inner,
         std::int64_t state, std::uint8_t width) {
  const std::int64_t pieces = std::min(m.sequence, kMostPieces);
  const std::int64_t tokens = ceil_div(m.sequence, pieces);
  const std::int64_t each = m.batch * inner * state * tokens;
  Var before = g.alloc(m.batch * inner * state, width, Name::kHidden);
  std::vector<Var> outputs;
  Var joined;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Var decay = slice(g, decays, each, false);
    const Var input = slice(g, inputs, each, false);
    const Var seen = slice(g, c, m.batch * state * tokens, false);
    const std::int32_t node = g.node(token_backward, decay, input, seen, before);
    g.runs_small(2);
    if (node >= 0) {
      g.at(node).n = {each, m.batch * inner * tokens, seen.elements};
      g.at(node).w[0] = width;
    }
    Var next;
    {
      const Var faded = g.alloc(each, 4, Name::kHidden);
      next = g.alloc(each, 4, Name::kHidden);
    }
    const Var narrow = width < 4 ? g.alloc(each, width, Name::kHidden) : next;
    Var output = g.alloc(m.batch * inner * tokens, width, Name::kHidden);
    g.save(node, decay);
    g.save(node, before);
    g.save(node, narrow);
    g.save(node, seen);
    if (node >= 0) {
      g.produced(next, node);
      g.produced(output, node, 1);
    }
    before = std::move(next);
    joined = append(g, joined, output);
    outputs.push_back(std::move(output));
  }
  return copy(g, joined, Name::kAttentionOutput);
}

// Channels along tokens, in the type of the convolution's weight; its end is cut, and SiLU keeps what it cut from.
Var convolve(Graph& g, const Model& m, const Var& x, const model::StateSpace& s, const MambaIds& ids) {
  const Var typed = cast(g, x, g.weight(ids.conv).width, Name::kCastInput);
  const Var padded =
      depthwise_convolution(g, typed, ids.conv, ids.conv_bias, m.batch * s.inner() * (m.sequence + s.conv - 1));
  const Var cut = slice(g, padded, m.tokens() * s.inner(), false);
  return cast(g, keeps_input(g, cut, Name::kActivation), x.width, Name::kActivation);
}

// A product wants tokens one after the other; a batch of one is in that order as it is.
Var by_token(Graph& g, const Model& m, const Var& x) { return m.batch > 1 ? copy(g, x, Name::kHidden) : x; }

// RMS norm of steps, B or C.
Var step_norm(Graph& g, const Model& m, const Var& x, const NormIds& ids, model::StepNorm kind) {
  if (kind == model::StepNorm::kNone) return x;
  Var hidden = cast(g, x, 4, Name::kNormFp32);
  const Var variance = mean_rows(g, pow(g, hidden, Name::kHidden), m.tokens(), Name::kNormStats);
  const Var inverse = rsqrt(g, add_number(g, variance, Name::kNormStats), Name::kNormStats);
  hidden = cast(g, mul(g, hidden, inverse, Name::kNormFp32), x.width, Name::kNormOutput);
  return kind == model::StepNorm::kWeighted ? mul(g, g.use(ids.w), hidden, Name::kNormOutput) : hidden;
}

}  // namespace

Var selective_mixer(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x) {
  const std::int64_t inner = s.inner();
  const std::int64_t channels = m.tokens() * inner;
  const std::int64_t all = channels * s.state;
  g.tape().at(Operation::kQkvLinear);
  const Var projected = project(g, m, x, ids.in, Name::kQkv);
  const Var power = keeps_result(g, cast(g, g.use(ids.a_log), 4, Name::kRouter), Name::kRouter);
  const Var a = neg(g, power, Name::kRouter);
  const auto parts = split(g, projected, {channels, channels, 0}, false);
  g.tape().at(Operation::kCoreAttention);
  const Var hidden = convolve(g, m, parts[0], s, ids);
  Var steps, b, c;
  {
    const Var mixed = project(g, m, by_token(g, m, hidden), ids.mix, Name::kRouter);
    const std::int64_t states = m.tokens() * s.state;
    const auto cut = split(g, mixed, {m.tokens() * s.step_rank, states, states}, false);
    const Var low = step_norm(g, m, cut[0], ids.step_norms[0], s.step_norm);
    b = step_norm(g, m, cut[1], ids.step_norms[1], s.step_norm);
    c = step_norm(g, m, cut[2], ids.step_norms[2], s.step_norm);
    steps = linear(g, low, ids.steps, -1, Name::kRouter);
  }
  Var y;
  {
    const Var skip = cast(g, g.use(ids.skip), 4, Name::kRouter);
    const Var wide_bias = cast(g, g.use(ids.dt_bias), 4, Name::kRouter);
    {
      const Var shifted = add(g, steps, cast(g, wide_bias, steps.width, Name::kRouter), Name::kRouter);
      steps = keeps_input(g, g.autocast ? cast(g, shifted, 4, Name::kRouter) : shifted, Name::kRouter);
    }
    Var decays;
    {
      const Var scaled = mul_sized(g, a, steps, all, Name::kAttentionTemp);
      decays = keeps_result(g, scaled, Name::kScores);
    }
    const Var fed = mul_sized(g, steps, cast(g, b, 4, Name::kKey), all, Name::kScores);
    const Var inputs = mul_sized(g, fed, cast(g, hidden, 4, Name::kQuery), all, Name::kAttentionTemp);
    y = walk(g, m, decays, inputs, c, inner, s.state, hidden.width);
    y = add(g, y, mul_sized(g, hidden, skip, channels, Name::kAttentionOutput), Name::kAttentionOutput);
    y = mul(g, y, keeps_input(g, parts[1], Name::kActivation), Name::kAttentionOutput);
  }
  g.tape().at(Operation::kProjection);
  Var typed = cast(g, y, x.width, Name::kAttentionOutput);
  y.reset();
  if (g.autocast) typed = cast(g, typed, 2, Name::kCastInput);
  return project(g, m, by_token(g, m, typed), ids.out, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
