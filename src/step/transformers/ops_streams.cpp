// SPDX-License-Identifier: Apache-2.0
// Operations of models with several residual streams: additions into a part of a tensor, differences, quotients, the
// deviation of rows. What autograd keeps and makes is that of PyTorch's formulas (derivatives.yaml, CopySlices).
#include <algorithm>

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// A gradient in the shape and width of the value that it belongs to; what came is let go first, as the engine does.
Var fitted(Graph& g, Node& node, Var grad, std::int64_t elements, std::uint8_t width) {
  node.grads[0].reset();
  if (grad.elements != elements) sum_to(g, grad, elements, false);
  if (grad.width == width) return grad;
  g.reads(grad.bytes());
  g.scattered(width > grad.width);
  Var converted = g.alloc(grad.elements, width, Name::kGrad);
  converted.head_major = grad.head_major;
  return converted;
}

// n: elements of the tensor, of the part, of what was added; w: widths of the first and the last, and whether the
// tensor is laid out by place. The gradient is copied whole, and its part again.
void add_in_view_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.grads[0].bytes());
  Var whole = g.alloc(node.n[0], node.w[0], Name::kGrad);
  whole.head_major = node.w[2] != 0;
  g.reads(node.n[1] * node.w[0]);
  Var part = g.alloc(node.n[1], node.w[0], Name::kGrad);
  if (node.edges[1].exists()) result[1] = fitted(g, node, std::move(part), node.n[2], node.w[1]);
  if (node.edges[0].exists()) result[0] = std::move(whole);
}

// The same; the tensor's own part gets zeros.
void assign_view_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.grads[0].bytes());
  Var whole = g.alloc(node.n[0], node.w[0], Name::kGrad);
  g.reads(node.n[1] * node.w[0]);
  Var part = g.alloc(node.n[1], node.w[0], Name::kGrad);
  const Var zeros = g.make(node.n[1], node.w[0], Name::kGrad);
  if (node.edges[1].exists()) result[1] = std::move(part);
  if (node.edges[0].exists()) result[0] = std::move(whole);
}

// n: elements of both; w: their widths. The second's gradient is negated in full before it is summed.
void subtract_backward(Graph& g, Node& node, Grads& result) {
  Var negated;
  if (node.edges[1].exists()) {
    g.reads(node.grads[0].bytes());
    negated = g.alloc(node.grads[0].elements, node.grads[0].width, Name::kGrad);
  }
  Var passed = node.grads[0];
  if (node.edges[0].exists()) result[0] = fitted(g, node, passed, node.n[0], node.w[0]);
  passed.reset();
  if (negated) result[1] = fitted(g, node, std::move(negated), node.n[1], node.w[1]);
}

// saved: both. -grad * ((a / b) / b): four tensors of the full size, of which the last is summed.
void divide_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  const auto full = [&] {
    g.reads(2 * grad.bytes());
    return g.alloc(grad.elements, grad.width, Name::kGrad);
  };
  Var to_first;
  if (node.edges[0].exists()) to_first = full();
  Var to_second;
  if (node.edges[1].exists()) {
    const Var negated = full();
    const Var quotient = full();
    const Var again = full();
    to_second = full();
  }
  if (to_second) result[1] = fitted(g, node, std::move(to_second), node.n[1], node.w[1]);
  if (to_first) result[0] = fitted(g, node, std::move(to_first), node.n[0], node.w[0]);
}

// n: elements before.
void repeat_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.grads[0].bytes());
  result[0] = g.alloc(node.n[0], node.grads[0].width, Name::kGrad);
}

// saved: the input and the deviations. 2 / n * grad * (x - mean).
void deviation_backward(Graph& g, Node& node, Grads& result) {
  const Var& x = node.saved[0];
  const std::int64_t rows = node.saved[1].elements;
  const auto small = [&] { return g.make(rows, x.width, Name::kGrad); };
  const Var variance = small();
  const Var mean = small();
  const Var weighted = small();
  g.reads(x.bytes());
  const Var centred = g.alloc(x.elements, x.width, Name::kGrad);
  g.reads(x.bytes());
  result[0] = g.alloc(x.elements, x.width, Name::kGrad);
}

Var result_of(Graph& g, const Var& a, const Var& b, std::int32_t node, Name name) {
  if (node >= 0) {
    g.at(node).n = {a.elements, b.elements};
    g.at(node).w = {a.width, b.width};
  }
  g.scattered(a.elements != b.elements);
  Var y = g.alloc(std::max(a.elements, b.elements), std::max(a.width, b.width), name);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace

Var add_in_view(Graph& g, const Var& x, const Var& other, std::int64_t part) {
  const std::int32_t node = g.node(add_in_view_backward, x, other);
  if (node >= 0) {
    g.at(node).n = {x.elements, part, other.elements};
    g.at(node).w = {x.width, other.width, static_cast<std::uint8_t>(x.head_major ? 1 : 0)};
  }
  if (g.meter != nullptr && !g.stopped()) g.meter->in_place(2 * part * x.width + other.bytes());
  Var y = x;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var assign_view(Graph& g, const Var& x, const Var& part) {
  const std::int32_t node = g.node(assign_view_backward, x, part);
  if (node >= 0) {
    g.at(node).n = {x.elements, part.elements};
    g.at(node).w = {x.width};
  }
  if (g.meter != nullptr && !g.stopped()) g.meter->in_place(2 * part.bytes());
  Var y = x;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var subtract(Graph& g, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(subtract_backward, a, b);
  return result_of(g, a, b, node, name);
}

Var divide(Graph& g, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(divide_backward, a, b);
  g.save(node, b);
  if (b.has_grad()) g.save(node, a);
  return result_of(g, a, b, node, name);
}

Var repeat(Graph& g, const Var& x, std::int64_t times, Name name) {
  const std::int32_t node = g.node(repeat_backward, x);
  if (node >= 0) g.at(node).n[0] = x.elements;
  Var y = g.alloc(x.elements * times, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var deviation(Graph& g, const Var& x, std::int64_t rows, Name name) {
  const std::int32_t node = g.node(deviation_backward, x);
  g.save(node, x);
  Var y = g.alloc(rows, x.width, name);
  if (node >= 0) g.produced(y, node);
  g.save(node, y);
  return y;
}

}  // namespace plimsoll::step::transformers
