// SPDX-License-Identifier: Apache-2.0
// Mixture of experts: a router, tokens sorted by expert, two grouped products around the activation, and
// the weighted sum back (Transformers 5's default expert implementation).
#include <array>
#include <utility>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

std::int64_t expert_width(const Model& m, const model::FeedForward& ffn) { return ffn.expert_width / m.tensor; }

struct Routing {
  Var logits, indices, weights;
};

Routing route(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x) {
  Routing routing;
  const std::int64_t pairs = m.tokens() * ffn.experts_per_token;
  if (m.family.late_softmax) {  // of the chosen scores alone
    routing.logits = linear(g, x, ids.router.w, ids.router.bias, Name::kRouter);
    const Var values = top_k(g, routing.logits, pairs, routing.indices);
    routing.weights = softmax(g, values, Name::kRouter);
    return routing;
  }
  Var probabilities;
  if (m.family.narrow_router) {  // outside autocast
    const bool outer = g.autocast;
    g.autocast = false;
    routing.logits = linear(g, cast(g, x, 4, Name::kRouter), ids.router.w, ids.router.bias, Name::kRouter);
    probabilities = softmax(g, routing.logits, Name::kRouter);
    g.autocast = outer;
  } else if (m.family.wide_router) {
    const Var wide = cast(g, x, 4, Name::kRouter);
    routing.logits = linear(g, wide, ids.router.w, ids.router.bias, Name::kRouter);
    probabilities = keeps_result(g, routing.logits, Name::kRouter);
  } else {
    routing.logits = linear(g, x, ids.router.w, ids.router.bias, Name::kRouter);
    probabilities = softmax_fp32(g, routing.logits, Name::kRouter);
  }
  Var values = top_k(g, probabilities, pairs, routing.indices);
  probabilities.reset();
  if (m.family.plain_weights) {
    routing.weights = values;
  } else {
    const bool outer = std::exchange(g.autocast, false);  // what is divided in place keeps its type
    Var sum = sum_copies(g, values, m.tokens(), Name::kRouter);
    g.autocast = outer;
    routing.weights = mul(g, values, sum, Name::kRouter);
  }
  if (m.family.narrow_weights) routing.weights = cast(g, routing.weights, x.width, Name::kRouter);
  return routing;
}

// Activation between the two products: silu(gate) * up, or gpt-oss's clamped form.
Var gate(Graph& g, const Model& m, const model::FeedForward& ffn, const Var& fused) {
  if (!ffn.gated) return activate(g, m, ffn.activation, fused);
  auto parts = split(g, fused, {fused.elements / 2, fused.elements / 2, 0}, false);
  if (ffn.expert_bias) {
    // (clamp(up) + 1) * clamp(gate) * sigmoid(alpha * clamp(gate))
    Var clamped_gate = keeps_input(g, parts[0], Name::kExpertActivation);
    Var clamped_up = keeps_input(g, parts[1], Name::kExpertActivation);
    Var scaled = scale(g, clamped_gate, Name::kHidden);
    Var sigmoid = keeps_result(g, scaled, Name::kExpertActivation);
    scaled.reset();
    Var glu = mul(g, clamped_gate, sigmoid, Name::kExpertActivation);
    Var shifted = add_number(g, clamped_up, Name::kExpertActivation);
    return mul(g, shifted, glu, Name::kExpertActivation);
  }
  Var active = activate(g, m, ffn.activation, parts[0]);
  return mul(g, active, parts[1], Name::kExpertActivation);
}

Var experts(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x,
            const Routing& routing) {
  const std::int64_t h = m.architecture().hidden;
  const std::int64_t pairs = m.tokens() * ffn.experts_per_token;
  g.tape().at(Operation::kDispatch);
  constexpr double kSortPasses = 20;  // ten kernels, each with counters that are set to zero first
  Var sorted = g.make(pairs, 8, Name::kRouter);
  g.launches_inside(kSortPasses);
  Var order = g.alloc(pairs, 8, Name::kRouter);
  g.tape().touch(g.stopped() ? 0 : 8 * pairs, Name::kMoeTemp);
  Var selected;
  {
    Var source = g.make(pairs, 8, Name::kRouter);
    selected = gather(g, x, source, pairs * h, Name::kRoutedTokens);
  }
  Var weights = gather(g, routing.weights, order, pairs, Name::kRouter);
  Var narrow_ids = g.make(pairs, 4, Name::kRouter);
  g.runs_small(5);  // rows of each expert (two kernels), their sum up to it, its conversion, indices kept in range
  Var mask = g.make(pairs, 1, Name::kRouter);
  selected = masked_fill(g, selected, mask, true, Name::kRoutedTokens);

  g.tape().at(Operation::kExperts);
  const std::int64_t fan = ffn.gated ? 2 : 1;
  Var hidden = grouped_matmul(g, selected, ids.experts_up, pairs, fan * expert_width(m, ffn), Name::kExpertFc1);
  if (ids.experts_up_bias >= 0) {
    Var bias = gather(g, g.use(ids.experts_up_bias), sorted, pairs * fan * expert_width(m, ffn), Name::kExpertFc1);
    hidden = add(g, hidden, bias, Name::kExpertFc1);
  }
  hidden = masked_fill(g, hidden, mask, false, Name::kExpertFc1);
  hidden = gate(g, m, ffn, hidden);
  hidden = grouped_matmul(g, hidden, ids.experts_down, pairs, h, Name::kExpertActivation);
  if (ids.experts_down_bias >= 0) {
    Var bias = gather(g, g.use(ids.experts_down_bias), sorted, pairs * h, Name::kExpertActivation);
    hidden = add(g, hidden, bias, Name::kExpertActivation);
  }
  hidden = masked_fill(g, hidden, mask, false, Name::kExpertActivation);

  g.tape().at(Operation::kCombine);
  Var weighted = mul(g, hidden, weights, Name::kMoeTemp);
  {
    Var inverse = g.make(pairs, 8, Name::kRouter);
    g.runs_small(1);  // numbered, then put in place
    g.tape().touch(g.stopped() ? 0 : 8 * pairs, Name::kMoeTemp);
    weighted = gather(g, weighted, inverse, pairs * h, Name::kMoeTemp);
  }
  Var summed = sum_copies(g, weighted, m.tokens() * h, Name::kMoeTemp);
  Var typed = cast(g, summed, x.width, Name::kHidden);
  // What the function names goes before what it returns was made of.
  weighted.reset();
  return typed;
}

// One expert after the other, each with its part of the weights; what each gives is added in place. Tokens are taken
// as spread evenly.
Var looped_experts(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x,
                   const Routing& routing) {
  const std::int64_t h = m.architecture().hidden;
  const std::int64_t width = expert_width(m, ffn);
  const std::int64_t rows = m.tokens() * ffn.experts_per_token / ffn.experts;
  g.tape().at(Operation::kExperts);
  Var output = g.alloc(m.tokens() * h, x.width, Name::kHidden);
  const Var chosen = g.alloc(m.tokens() * ffn.experts_per_token * ffn.experts, 8, Name::kRouter);
  for (std::int64_t i = 0; i < ffn.experts; ++i) {
    const Var index = g.alloc(rows, 8, Name::kRouter);
    const Var place = g.alloc(rows, 8, Name::kRouter);
    const auto part = [&](std::int32_t weight) { return slice(g, g.use(weight), width * h, true); };
    const auto times = [&](const Var& a, const Var& b, std::int64_t k, std::int64_t n) {
      Var left = a;
      left.head_major = true;
      Var right = b;
      right.head_major = true;
      return batched_matmul(g, left, right, {1, rows, k, n}, Name::kExpertFc1);
    };
    const Var w1 = part(ids.experts_up);
    const Var v1 = part(ids.experts_up);
    const Var w2 = part(ids.experts_down);
    const Var states = gather(g, x, index, rows * h, Name::kRoutedTokens);
    const Var gate = times(states, w1, h, width);
    const Var up = times(states, v1, h, width);
    const Var active = activate(g, m, ffn.activation, gate);
    const Var inner = mul(g, active, up, Name::kExpertActivation);
    const Var down = times(inner, w2, width, h);
    const Var weights = gather(g, routing.weights, place, rows, Name::kRouter);
    const Var weighted = mul(g, down, weights, Name::kMoeTemp);
    output = add_rows(g, output, weighted, index);
  }
  return output;
}

// Every token goes to every expert, multiplied by its score, which is zero for the experts that were not chosen.
Var all_experts(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x) {
  const std::int64_t h = m.architecture().hidden;
  const std::int64_t width = expert_width(m, ffn);
  const Var logits = linear(g, x, ids.router.w, ids.router.bias, Name::kRouter);
  Var scores;
  {
    Var indices;
    const Var values = top_k(g, logits, m.tokens() * ffn.experts_per_token, indices);
    const Var chosen = g.alloc(logits.elements, logits.width, Name::kRouter);
    scores = cast(g, keeps_result(g, cast(g, logits, 4, Name::kRouter), Name::kRouter), x.width, Name::kRouter);
  }
  g.tape().at(Operation::kDispatch);
  Var routed;
  {
    const Var repeated = expand(g, x, ffn.experts, Name::kRoutedTokens);
    routed = mul(g, repeated, scores, Name::kRoutedTokens);
    routed.head_major = true;
  }
  g.tape().at(Operation::kExperts);
  const auto weight = [&](std::int32_t id) {
    Var w = g.autocast ? g.cast_weight(id) : g.use(id);
    w.head_major = true;
    return w;
  };
  Var hidden =
      batched_matmul(g, routed, weight(ids.experts_up), {ffn.experts, m.tokens(), h, 2 * width}, Name::kExpertFc1);
  {
    auto parts = split(g, hidden, {hidden.elements / 2, hidden.elements / 2, 0}, true);
    const Var active = activate(g, m, ffn.activation, parts[0]);
    hidden = mul(g, parts[1], active, Name::kExpertActivation);
  }
  hidden.head_major = true;
  return batched_matmul(g, hidden, weight(ids.experts_down), {ffn.experts, m.tokens(), width, h}, Name::kMoeTemp);
}

}  // namespace

Var mixture(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x) {
  const auto run_shared = [&] {
    LayerIds inner;
    inner.gate = ids.shared_gate;
    inner.up = ids.shared_up;
    inner.gate_up = ids.shared_packed;
    inner.down = ids.shared_down;
    model::FeedForward dense = ffn;
    dense.gated = true;
    return mlp(g, m, dense, inner, x);
  };
  const bool has_shared = ids.shared_down.w >= 0;
  if (m.family.all_experts) {
    g.tape().at(Operation::kRouting);
    const Var routed = all_experts(g, m, ffn, ids, x);
    const Var summed = sum_along(g, routed, x.elements, Name::kHidden);
    return has_shared ? add_bias(g, run_shared(), summed) : summed;
  }
  const bool switched = ids.shared_switch.w >= 0;  // Qwen
  const bool shared_first = switched || m.family.shared_first;
  Var shared;
  if (has_shared && shared_first) shared = run_shared();
  g.tape().at(Operation::kRouting);
  Var y;
  {
    Routing routing = route(g, m, ffn, ids, x);
    y = m.family.looped_experts ? looped_experts(g, m, ffn, ids, x, routing) : experts(g, m, ffn, ids, x, routing);
  }
  if (!has_shared) return y;
  if (switched) {
    Var open = linear(g, x, ids.shared_switch.w, -1, Name::kRouter);
    if (open.node >= 0) g.at(open.node).w[3] = 1;  // of rows: its gradient is not a view as that of sequences is
    open = keeps_result(g, open, Name::kRouter);
    shared = mul(g, open, shared, Name::kSharedExpert);
  } else if (!shared_first) {
    shared = run_shared();
  }
  Var sum = add(g, y, shared, Name::kHidden);
  for (Var* done : shared_first ? std::array{&y, &shared} : std::array{&shared, &y}) done->reset();
  return sum;
}

}  // namespace plimsoll::step::transformers
