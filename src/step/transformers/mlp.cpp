// SPDX-License-Identifier: Apache-2.0
// Dense MLPs: gated (Llama), fused gate and up (Phi-3), and the two-layer kind (GPT-2, GPT-NeoX).
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Var activate(Graph& g, const Model& m, model::Activation activation, const Var& x) {
  (void)m;
  switch (activation) {
    case model::Activation::kSilu:
    case model::Activation::kGelu:
      return keeps_input(g, x, Name::kActivation);
    case model::Activation::kRelu:
      return keeps_result(g, x, Name::kActivation);
    case model::Activation::kSquaredRelu: {
      // Autocast squares in fp32.
      Var positive = keeps_result(g, x, Name::kActivation);
      if (g.autocast) positive = cast(g, positive, 4, Name::kActivation);
      return pow(g, positive, Name::kActivation);
    }
    case model::Activation::kGeluNew: {
      // 0.5 * x * (1 + tanh(c * (x + d * x^3))); pow promotes to fp32 under autocast.
      Var half = scale(g, x, Name::kActivation);
      Var inner;
      {
        const Var wide = g.autocast ? cast(g, x, 4, Name::kActivation) : x;
        inner = pow(g, wide, Name::kHidden);
      }
      inner = scale(g, inner, Name::kHidden);
      inner = add(g, x, inner, Name::kHidden);
      inner = scale(g, inner, Name::kHidden);
      inner = keeps_result(g, inner, Name::kActivation);
      inner = add_number(g, inner, Name::kActivation);
      return mul(g, half, inner, Name::kActivation);
    }
    case model::Activation::kQuickGelu: {
      Var scaled = scale(g, x, Name::kHidden);
      Var open = keeps_result(g, scaled, Name::kActivation);
      scaled.reset();
      return mul(g, x, open, Name::kActivation);
    }
    case model::Activation::kGeluFast: {
      // 0.5 * x * (1 + tanh(x * c * (1 + d * x * x)))
      Var half = scale(g, x, Name::kActivation);
      Var inner = scale(g, x, Name::kHidden);
      {
        Var bent = scale(g, x, Name::kHidden);
        bent = mul(g, bent, x, Name::kHidden);
        bent = add_number(g, bent, Name::kHidden);
        inner = mul(g, inner, bent, Name::kHidden);
      }
      inner = keeps_result(g, inner, Name::kActivation);
      inner = add_number(g, inner, Name::kActivation);
      return mul(g, half, inner, Name::kActivation);
    }
    case model::Activation::kBloomGelu:
      return bloom_gelu(g, x, Name::kActivation);
    case model::Activation::kXielu:  // has weights, see bent()
      break;
  }
  return {};
}

namespace {

// where(x > 0, p * x * x + beta * x, (expm1(min(x, eps)) - x) * n + beta * x) with learned p and n, which softplus
// makes fp32 under autocast.
Var bent(Graph& g, const LayerIds& ids, const Var& x) {
  const auto slope = [&](std::int32_t id) {
    Var wide = g.autocast ? cast(g, g.use(id), 4, Name::kRouter) : g.use(id);
    wide.per_channel = false;
    return keeps_input(g, wide, Name::kRouter);
  };
  const Var rising = slope(ids.slopes[0]);
  const Var falling = add_number(g, slope(ids.slopes[1]), Name::kRouter);
  const Var is_positive = g.alloc(x.elements, 1, Name::kMask);
  const auto plus_slope = [&](Var curve) {
    Var sloped = scale(g, x, Name::kHidden);
    Var sum = add(g, curve, sloped, Name::kHidden);
    curve.reset();
    sloped.reset();
    return sum;
  };
  Var above, below;
  {
    Var square = mul(g, mul(g, rising, x, Name::kActivation), x, Name::kHidden);
    above = plus_slope(std::move(square));
  }
  {
    Var curve;
    {
      const Var least = smaller(g, x, Name::kHidden);
      curve = keeps_result(g, g.autocast ? cast(g, least, 4, Name::kHidden) : least, Name::kActivation);
    }
    curve = mul(g, subtract(g, curve, x, Name::kActivation), falling, Name::kHidden);
    below = plus_slope(std::move(curve));
  }
  Var y = select(g, is_positive, above, below, Name::kActivation);
  above.reset();
  below.reset();
  return y;
}

// T5 drops part of what goes into its last product, and converts the rest to the dtype of that product's weight.
Var before_down(Graph& g, const Model& m, const LayerIds& ids, const Var& x) {
  if (!m.family.drops_activation) return x;
  const Var dropped = dropout(g, x, m.architecture().hidden_dropout, Name::kActivation);
  return cast(g, dropped, g.weight(ids.down.w).width, Name::kCastInput);
}

Var scaled_mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x) {
  Tape& tape = g.tape();
  Var up = project(g, m, x, ids.up, Name::kFc1);
  Var gate = scale(g, project(g, m, x, ids.gate, Name::kFc1), Name::kFc1);
  tape.at(Operation::kActivationFunction);
  gate = activate(g, m, ffn.activation, gate);
  Var product = mul(g, up, gate, Name::kActivation);
  gate.reset();
  up.reset();
  tape.at(Operation::kFc2Linear);
  return scale(g, project(g, m, product, ids.down, Name::kHidden), Name::kHidden);
}

}  // namespace

Var inline_mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, Var x) {
  g.tape().at(Operation::kFc1Linear);
  Var up = project(g, m, x, ids.up, Name::kFc1);
  if (!m.family.nested_activation) x.reset();
  g.tape().at(Operation::kActivationFunction);
  x = activate(g, m, ffn.activation, up);
  up.reset();
  g.tape().at(Operation::kFc2Linear);
  return project(g, m, x, ids.down, Name::kHidden);
}

Var mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x,
        const Leave& leave) {
  Tape& tape = g.tape();
  tape.at(Operation::kFc1Linear);
  if (!ffn.gated) {
    Var hidden = project(g, m, x, ids.up, Name::kFc1);
    tape.at(Operation::kActivationFunction);
    hidden =
        ffn.activation == model::Activation::kXielu ? bent(g, ids, hidden) : activate(g, m, ffn.activation, hidden);
    hidden = before_down(g, m, ids, hidden);
    tape.at(Operation::kFc2Linear);
    return leave(project(g, m, hidden, ids.down, Name::kHidden));
  }
  if (ids.gate_up.w >= 0) {
    Var up = project(g, m, x, ids.gate_up, Name::kFc1);
    auto parts = split(g, up, {up.elements / 2, up.elements / 2, 0}, false);
    up.reset();
    tape.at(Operation::kActivationFunction);
    Var active = activate(g, m, ffn.activation, parts[0]);
    Var product = mul(g, parts[1], active, Name::kActivation);
    active.reset();
    parts[1].reset();
    tape.at(Operation::kFc2Linear);
    return leave(project(g, m, product, ids.down, Name::kHidden));
  }
  if (m.liger) {
    Var gate = project(g, m, x, ids.gate, Name::kFc1);
    Var up = project(g, m, x, ids.up, Name::kFc1);
    tape.at(Operation::kActivationFunction);
    Var product = liger_swiglu(g, gate, up, Name::kActivation);
    gate.reset();
    up.reset();
    tape.at(Operation::kFc2Linear);
    return leave(project(g, m, product, ids.down, Name::kHidden));
  }
  if (m.family.scaled_parts) return leave(scaled_mlp(g, m, ffn, ids, x));
  Var active;
  {
    Var gate = project(g, m, x, ids.gate, Name::kFc1);
    tape.at(Operation::kActivationFunction);
    if (ffn.sparse) gate = largest(g, gate, m.tokens());
    active = activate(g, m, ffn.activation, gate);
  }
  tape.at(Operation::kFc1Linear);
  Var up = project(g, m, x, ids.up, Name::kFc1);
  tape.at(Operation::kActivationFunction);
  Var product = mul(g, active, up, Name::kActivation);
  active.reset();
  up.reset();
  product = before_down(g, m, ids, product);
  tape.at(Operation::kFc2Linear);
  return leave(project(g, m, product, ids.down, Name::kHidden));
}

}  // namespace plimsoll::step::transformers
