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

// faded = decay * state; both keep what the other's gradient needs. n: elements of the product.
void fade_backward(Graph& g, Node& node, Grads& result) {
  g.runs_small(2);
  if (node.edges[1].exists()) result[1] = g.alloc(node.n[0], 4, Name::kGrad);
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[0], 4, Name::kGrad);
}

Var fade(Graph& g, const Var& decay, const Var& state) {
  const std::int32_t node = g.node(fade_backward, decay, state);
  g.runs_small(1);
  Var faded = g.alloc(decay.elements, 4, Name::kHidden);
  if (node >= 0) g.at(node).n[0] = decay.elements;
  if (state.has_grad()) g.save(node, decay);
  g.save(node, state);
  if (node >= 0) g.produced(faded, node);
  return faded;
}

// state = faded + input, and the state in the width of what it is multiplied with. grads: of the state, which the next
// token gave, and of its copy, which is converted and added to it. w: whether there is a copy.
void state_backward(Graph& g, Node& node, Grads& result) {
  g.runs_small(1);
  Var converted = g.alloc(node.w[0] != 0 ? node.n[0] : 0, 4, Name::kGrad);
  Var& sum = node.grads[0];
  if (!sum) sum = converted ? std::move(converted) : node.grads[1];
  for (std::size_t i = 0; i < 2; ++i)
    if (node.edges[i].exists()) result[i] = sum;
}

struct State {
  Var wide, typed;
};

State advance(Graph& g, Var faded, const Var& input, std::uint8_t width) {
  const std::int32_t node = g.node(state_backward, faded, input);
  g.runs_small(1);
  State state;
  state.wide = g.alloc(faded.elements, 4, Name::kHidden);
  faded.reset();
  if (node >= 0) {
    g.at(node).n[0] = state.wide.elements;
    g.at(node).w[0] = width < 4 ? 1 : 0;
    g.produced(state.wide, node);
  }
  state.typed = state.wide;
  if (width >= 4) return state;
  state.typed = g.alloc(state.wide.elements, width, Name::kHidden);
  if (node >= 0) g.produced(state.typed, node, 1);
  return state;
}

// output = state @ C: a product in batches of sequences, whose result has a column that is cut off. n: elements of the
// output, of the state and of C.
void output_backward(Graph& g, Node& node, Grads& result) {
  g.runs_small(3);
  const Var column = g.alloc(node.n[0], node.w[0], Name::kGrad);
  if (node.edges[1].exists()) result[1] = g.alloc(node.n[2], node.w[0], Name::kGrad);
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[1], node.w[0], Name::kGrad);
}

Var output_of(Graph& g, const Var& state, const Var& seen, std::int64_t elements) {
  const std::int32_t node = g.node(output_backward, state, seen);
  Var output = g.alloc(elements, state.width, Name::kHidden);
  g.save(node, state);
  g.save(node, seen);
  if (node < 0) return output;
  g.at(node).n = {elements, state.elements, seen.elements};
  g.at(node).w[0] = state.width;
  g.produced(output, node);
  return output;
}

// One token after the other. Each takes its part of decays, inputs and C, whose gradients are tensors of the full size
// that are added up. The caller's list holds the outputs until its function returns.
Var walk(Graph& g, const Model& m, const Var& decays, const Var& inputs, const Var& c, std::int64_t inner,
         std::int64_t state, std::uint8_t width, std::vector<Var>& outputs) {
  const std::int64_t pieces = std::min(m.sequence, kMostPieces);
  const std::int64_t tokens = ceil_div(m.sequence, pieces);
  const std::int64_t each = m.batch * inner * state * tokens;
  Var before = g.alloc(m.batch * inner * state, width, Name::kHidden);
  Var joined;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Var decay = slice(g, decays, each, false);
    Var faded = fade(g, decay, before);
    const Var input = slice(g, inputs, each, false);
    State next = advance(g, std::move(faded), input, width);
    const Var seen = slice(g, c, m.batch * state * tokens, false);
    Var output = output_of(g, next.typed, seen, m.batch * inner * tokens);
    before = std::move(next.wide);
    joined = append(g, joined, output);
    outputs.push_back(std::move(output));
  }
  return copy(g, joined, Name::kAttentionOutput);
}

// Channels along tokens, in the type of the convolution's weight; its end is cut, and SiLU keeps what it cut from.
Var convolve(Graph& g, const Model& m, const Var& x, const model::StateSpace& s, const MambaIds& ids) {
  const Var padded = depthwise_convolution(g, cast(g, x, g.weight(ids.conv).width, Name::kCastInput), ids.conv,
                                           ids.conv_bias, m.batch * s.inner() * (m.sequence + s.conv - 1));
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

// A product of the weight with what stands in its columns is made row by row, and laid out anew; so is its gradient,
// where more than one sequence keeps it from being a view.
Var by_channel(Graph& g, const Model& m, const Var& x) {
  return m.batch > 1 ? laid_out(g, x, Name::kRouter) : copy(g, x, Name::kRouter);
}

// What the mixer's own function holds until it returns.
struct Scanned {
  const Var &hidden, &steps, &a, &b, &c, &gate;
};

Var scan(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Scanned& in) {
  const std::int64_t channels = m.tokens() * s.inner();
  const std::int64_t all = channels * s.state;
  const Var skip = cast(g, g.use(ids.skip), 4, Name::kRouter);
  const Var wide_bias = cast(g, g.use(ids.dt_bias), 4, Name::kRouter);
  Var steps = add(g, in.steps, cast(g, wide_bias, in.steps.width, Name::kRouter), Name::kRouter);
  steps = keeps_input(g, g.autocast ? cast(g, steps, 4, Name::kRouter) : steps, Name::kRouter);
  Var decays;
  {
    const Var scaled = mul_sized(g, in.a, steps, all, Name::kAttentionTemp, Leading::kFirst);
    decays = keeps_result(g, scaled, Name::kScores);
  }
  const Var fed = mul_sized(g, steps, cast(g, in.b, 4, Name::kKey), all, Name::kScores, Leading::kSecond);
  const Var inputs = mul_sized(g, fed, cast(g, in.hidden, 4, Name::kQuery), all, Name::kAttentionTemp);
  std::vector<Var> outputs;
  Var y = walk(g, m, decays, inputs, in.c, s.inner(), s.state, in.hidden.width, outputs);
  {
    Var skipped = mul_sized(g, in.hidden, skip, channels, Name::kAttentionOutput);
    Var sum = add(g, y, skipped, Name::kAttentionOutput);
    skipped.reset();
    y = std::move(sum);
  }
  return mul(g, y, keeps_input(g, in.gate, Name::kActivation), Name::kAttentionOutput);
}

}  // namespace

Var selective_mixer(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x) {
  const std::int64_t inner = s.inner();
  const std::int64_t channels = m.tokens() * inner;
  g.tape().at(Operation::kQkvLinear);
  // Channels first: the gradient of several sequences is laid out anew for the product.
  const bool several = m.batch > 1;
  Var projected = project(g, m, x, ids.in, Name::kQkv);
  if (several) projected = to_heads(g, projected);
  const Var power = keeps_result(g, cast(g, g.use(ids.a_log), 4, Name::kRouter), Name::kRouter);
  const Var a = neg(g, power, Name::kRouter);
  const auto parts = split(g, projected, {channels, channels, 0}, several);
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
    steps = by_channel(g, m, linear(g, low, ids.steps, -1, Name::kRouter));
  }
  const Var y = scan(g, m, s, ids, {hidden, steps, a, b, c, parts[1]});
  g.tape().at(Operation::kProjection);
  Var typed = cast(g, y, x.width, Name::kAttentionOutput);
  if (several && g.autocast) typed = cast(g, typed, 2, Name::kCastInput);
  typed = by_token(g, m, typed);
  Var result = project(g, m, typed, ids.out, Name::kHidden);
  typed.reset();
  steps.reset();
  return result;
}

}  // namespace plimsoll::step::transformers
