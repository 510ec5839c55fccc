// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

std::uint8_t wider(const Var& a, const Var& b) { return std::max(a.width, b.width); }

// A gradient in the width of the value that it belongs to, as the engine checks it.
void fit(Graph& g, Var& grad, std::uint8_t width) {
  if (!grad || grad.width == width) return;
  g.reads(grad.bytes());
  g.scattered(width > grad.width);
  Var converted = g.alloc(grad.elements, width, Name::kGrad);
  converted.head_major = grad.head_major;
  grad = std::move(converted);
}

// Whether two operands are laid out differently: one is broadcast or transposed.
bool mixes(const Var& a, const Var& b) { return a.elements != b.elements || a.head_major != b.head_major; }

Var like(Graph& g, const Var& x, Name name) {
  Var y = g.alloc(x.elements, x.width, name);
  y.head_major = x.head_major;
  return y;
}

void cast_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  g.scattered(node.w[0] > grad.width);
  result[0] = g.alloc(grad.elements, node.w[0], Name::kGrad);
  result[0].head_major = grad.head_major;
}

void add_backward(Graph& g, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i)
    if (node.edges[i].exists()) result[i] = node.grads[0];
  for (std::size_t i = 0; i < 2; ++i) {
    if (!result[i]) continue;
    if (result[i].elements != node.n[i]) sum_to(g, result[i], node.n[i], node.w[2] != 0);
    fit(g, result[i], node.w[i]);
  }
}

// n: elements of the bias; w: its width. What came flows on, and its sum over what the bias was spread over.
void add_bias_backward(Graph& g, Node& node, Grads& result) {
  result[0] = node.grads[0];
  if (!node.edges[1].exists()) return;
  result[1] = node.grads[0];
  if (result[1].elements != node.n[0]) sum_to(g, result[1], node.n[0], false);
  fit(g, result[1], node.w[0]);
}

void pass_backward(Graph&, Node& node, Grads& result) { result[0] = node.grads[0]; }

void fresh_backward(Graph& g, Node& node, Grads& result) { result[0] = like(g, node.grads[0], Name::kGrad); }

// Half where both are equal, nothing where the constant is the smaller one.
void smaller_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  Var half = like(g, grad, Name::kGrad);
  Var equal = g.alloc(grad.elements, 1, Name::kMask);
  result[0] = like(g, grad, Name::kGrad);
  Var above = g.alloc(grad.elements, 1, Name::kMask);
  for (Var* done : {&above, &equal, &half}) done->reset();
}

void pow_backward(Graph& g, Node& node, Grads& result) {
  const Var& x = node.saved[0];
  g.reads(x.bytes());
  Var power = like(g, x, Name::kGrad);
  g.reads(x.bytes());
  Var factor = like(g, x, Name::kGrad);
  g.reads(x.bytes() + node.grads[0].bytes());
  result[0] = like(g, x, Name::kGrad);
  result[0].head_major = node.grads[0].head_major;
  factor.reset();
  power.reset();
}

// saved: other if the first factor needs a gradient, then self if the second does.
void mul_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  const bool to_first = node.edges[0].exists();
  const bool to_second = node.edges[1].exists();
  const Var& other = node.saved[0];
  const Var& self = node.saved[to_first ? 1 : 0];
  if (to_second) {
    g.reads(grad.bytes() + self.bytes());
    g.scattered(mixes(grad, self));
    result[1] = g.alloc(std::max(grad.elements, self.elements), wider(grad, self), Name::kGrad);
    result[1].head_major = grad.head_major;
  }
  if (to_first) {
    g.reads(grad.bytes() + other.bytes());
    g.scattered(mixes(grad, other));
    result[0] = g.alloc(std::max(grad.elements, other.elements), wider(grad, other), Name::kGrad);
    result[0].head_major = grad.head_major;
  }
  g.drop_replayed(node);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!result[i]) continue;
    if (result[i].elements != node.n[i]) {
      sum_to(g, result[i], node.n[i], node.w[2] != 0, node.n[2] == static_cast<std::int64_t>(i) + 1);
      result[i].is_view = node.w[3] != 0;
    }
    fit(g, result[i], node.w[i]);
  }
}

// saved: the table.
void mul_complex_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.saved[0].bytes());
  const Var conjugate = g.alloc(node.saved[0].elements, node.saved[0].width, Name::kGrad);
  g.reads(node.grads[0].bytes() + conjugate.bytes());
  g.scattered();
  result[0] = like(g, node.grads[0], Name::kGrad);
}

// Backwards: the gradient turned round, summed, turned round again.
void running_sum_backward(Graph& g, Node& node, Grads& result) {
  const Var turned = like(g, node.grads[0], Name::kGrad);
  g.reads(turned.bytes());
  const Var sums = like(g, turned, Name::kGrad);
  g.reads(sums.bytes());
  result[0] = like(g, sums, Name::kGrad);
}

// A sum spreads its gradient without a copy, as a view that keeps it.
void spread_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.view(node.grads[0], node.n[0]);
  result[0].is_view = true;
}

// Zeros in the places of the other.
void select_backward(Graph& g, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!node.edges[i].exists()) continue;
    result[i] = like(g, node.grads[0], Name::kGrad);
    fit(g, result[i], node.w[i]);
  }
}

void dropout_backward(Graph& g, Node& node, Grads& result) { result[0] = like(g, node.grads[0], Name::kGrad); }

// A broadcast vector runs along the last dimension (weights, biases) or is one value per row.
bool broadcasts_channels(const Var& a, const Var& b) {
  const Var& smaller = a.elements < b.elements ? a : b;
  return smaller.per_channel;
}

Var binary(Graph& g, const Var& a, const Var& b, std::int32_t node, Name name) {
  if (node >= 0) {
    Node& n = g.at(node);
    n.n[0] = a.elements;
    n.n[1] = b.elements;
    n.w[0] = a.width;
    n.w[1] = b.width;
    n.w[2] = broadcasts_channels(a, b) ? 1 : 0;
  }
  const Var& larger = a.elements >= b.elements ? a : b;
  g.scattered(mixes(a, b));
  Var y = g.alloc(larger.elements, wider(a, b), name);
  y.head_major = larger.head_major;
  y.per_channel = larger.per_channel;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var unary(Graph& g, const Var& x, std::int32_t node, Name name) {
  Var y = like(g, x, name);
  y.per_channel = x.per_channel;
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace

Var cast(Graph& g, const Var& x, std::uint8_t width, Name name) {
  if (x.width == width || !x) return x;
  const std::int32_t node = g.node(cast_backward, x);
  if (node >= 0) g.at(node).w[0] = x.width;
  g.scattered(width > x.width);
  Var y = g.alloc(x.elements, width, name);
  y.head_major = x.head_major;
  y.per_channel = x.per_channel;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var add(Graph& g, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(add_backward, a, b);
  return binary(g, a, b, node, name);
}

Var add_bias(Graph& g, const Var& x, const Var& bias) {
  const std::int32_t node = g.node(add_bias_backward, x, bias);
  if (node >= 0) {
    g.at(node).n[0] = bias.elements;
    g.at(node).w[0] = bias.width;
  }
  if (g.meter != nullptr && !g.stopped()) g.meter->in_place(2 * x.bytes() + bias.bytes());
  Var y = x;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var add_number(Graph& g, const Var& x, Name name) { return unary(g, x, g.node(pass_backward, x), name); }

Var scale(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(fresh_backward, x);
  g.save(node, {});  // the number itself
  return unary(g, x, node, name);
}

Var running_sum(Graph& g, const Var& x, Name name) { return unary(g, x, g.node(running_sum_backward, x), name); }

Var neg(Graph& g, const Var& x, Name name) { return unary(g, x, g.node(fresh_backward, x), name); }

Var pow(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(pow_backward, x);
  g.save(node, x);
  return unary(g, x, node, name);
}

Var keeps_input(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(fresh_backward, x);
  g.save(node, x);
  return unary(g, x, node, name);
}

Var keeps_result(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(fresh_backward, x);
  Var y = unary(g, x, node, name);
  g.save(node, y);
  return y;
}

Var mul(Graph& g, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(mul_backward, a, b);
  if (a.has_grad()) g.save(node, b);
  if (b.has_grad()) g.save(node, a);
  return binary(g, a, b, node, name);
}

Var mul_complex(Graph& g, const Var& x, const Var& table, Name name) {
  const std::int32_t node = g.node(mul_complex_backward, x, table);
  g.save(node, table);
  g.scattered();
  return unary(g, x, node, name);
}

Var smaller(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(smaller_backward, x);
  g.save(node, x);
  return unary(g, x, node, name);
}

Var add_onto(Graph& g, const Var& to, const Var& x) {
  const std::int32_t node = g.node(add_backward, to, x);
  if (node >= 0) {
    Node& n = g.at(node);
    n.n[0] = to.elements;
    n.n[1] = x.elements;
    n.w[0] = to.width;
    n.w[1] = x.width;
  }
  Var y = to;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var mul_sized(Graph& g, const Var& a, const Var& b, std::int64_t elements, Name name, Leading leading) {
  const std::int32_t node = g.node(mul_backward, a, b);
  if (a.has_grad()) g.save(node, b);
  if (b.has_grad()) g.save(node, a);
  if (node >= 0) {
    Node& n = g.at(node);
    n.n[0] = a.elements;
    n.n[1] = b.elements;
    n.w[0] = a.width;
    n.w[1] = b.width;
    n.w[3] = 1;
    n.n[2] = static_cast<std::int64_t>(leading);
  }
  Var y = g.alloc(elements, wider(a, b), name);
  y.head_major = true;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var sum_along(Graph& g, const Var& x, std::int64_t result, Name name) {
  const std::int32_t node = g.node(spread_backward, x);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = x.width;
  }
  Var y = g.alloc(result, x.width, name);
  y.head_major = true;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var mul_sum(Graph& g, const Var& a, const Var& b, std::int64_t elements, std::int64_t result, Name name) {
  const Var product = mul_sized(g, a, b, elements, Name::kAttentionTemp);
  return sum_along(g, product, result, name);
}

Var select(Graph& g, const Var& mask, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(select_backward, a, b);
  g.save(node, mask);
  return binary(g, a, b, node, name);
}

Var dropout(Graph& g, const Var& x, double p, Name name) {
  if (p <= 0) return x;
  if (!g.grad_enabled) return x;  // evaluation mode
  const std::int32_t node = g.node(dropout_backward, x);
  Var mask = g.alloc(x.elements, 1, Name::kDropoutMask);
  Var y = unary(g, x, node, name);
  g.save(node, mask);
  return y;
}

}  // namespace plimsoll::step::transformers
