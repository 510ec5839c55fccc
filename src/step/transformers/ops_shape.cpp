// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

void to_heads_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  if (grad.head_major) {
    result[0] = g.alloc(grad.elements, grad.width, Name::kGrad);
  } else {
    result[0] = grad;
    result[0].is_view = true;
  }
}

// Zeros, and the gradient copied to its place among them.
void slice_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.make(node.n[0], node.grads[0].width, Name::kGrad);
  if (g.meter != nullptr) g.meter->in_place(2 * node.grads[0].bytes());
  result[0].head_major = node.w[0] != 0;
}

void cat_backward(Graph& g, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!node.edges[i].exists()) continue;
    if (node.w[i] != node.grads[0].width) {  // joined with a wider tensor
      result[i] = g.alloc(node.n[i], node.w[i], Name::kGrad);
      result[i].head_major = node.grads[0].head_major;
      continue;
    }
    result[i] = g.view(node.grads[0], node.n[i]);
    result[i].is_view = true;
  }
}

// n: elements of what came before and of the piece.
void append_backward(Graph& g, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!node.edges[i].exists()) continue;
    result[i] = g.view(node.grads[0], node.n[i]);
    result[i].is_view = true;
  }
}

// Each copy passes a gradient of the whole on, with zeros in its place, and one of its part.
void filled_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t all = node.n[0] + node.n[1];
  const std::uint8_t width = node.grads[0].width;
  Var whole = g.alloc(all, width, Name::kGrad);
  result[1] = g.alloc(node.n[1], width, Name::kGrad);
  {
    const Var part = g.alloc(node.n[1], width, Name::kGrad);
  }
  node.grads[0].reset();
  Var rest = g.alloc(all, width, Name::kGrad);
  result[0] = g.alloc(node.n[0], width, Name::kGrad);
  rest.reset();
  whole.reset();
}

void reshaped_backward(Graph&, Node& node, Grads& result) {
  result[0] = node.grads[0];
  result[0].is_view = true;
}

void split_backward(Graph& g, Node& node, Grads& result) {
  std::uint8_t width = 0;
  for (const Var& grad : node.grads)
    if (grad) width = grad.width;
  // Parts without a gradient are filled with zeros of their own.
  std::array<Var, 3> zeros;
  for (std::size_t i = 0; i < 3; ++i)
    if (!node.grads[i] && node.n[i] > 0) zeros[i] = g.alloc(node.n[i], width, Name::kGrad);
  result[0] = g.alloc(node.n[3], width, Name::kGrad);
  result[0].head_major = node.w[0] != 0;
}

void copy_backward(Graph&, Node& node, Grads& result) { result[0] = node.grads[0]; }

void laid_out_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.grads[0].elements, node.grads[0].width, Name::kGrad);
}

void expand_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.n[0], node.grads[0].width, Name::kGrad);
  result[0].head_major = true;
}

}  // namespace

Var filled(Graph& g, const Var& first, const Var& second, Name name) {
  const std::int32_t node = g.node(filled_backward, first, second);
  if (node >= 0) g.at(node).n = {first.elements, second.elements};
  Var y = g.alloc(first.elements + second.elements, first.width, name);
  y.head_major = true;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var reshaped(Graph& g, const Var& x) {
  const std::int32_t node = g.node(reshaped_backward, x);
  Var y = x;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var to_heads(Graph& g, const Var& x) {
  const std::int32_t node = g.node(to_heads_backward, x);
  Var y = x;
  y.head_major = false;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var slice(Graph& g, const Var& x, std::int64_t elements, bool head_major) {
  const std::int32_t node = g.node(slice_backward, x);
  Var y = g.view(x, elements);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = head_major ? 1 : 0;
    g.produced(y, node);
  }
  return y;
}

Var cat(Graph& g, const Var& a, const Var& b, Name name) {
  const std::int32_t node = g.node(cat_backward, a, b);
  Var y = g.alloc(a.elements + b.elements, std::max(a.width, b.width), name);
  y.head_major = true;
  if (node >= 0) {
    g.at(node).n = {a.elements, b.elements};
    g.at(node).w = {a.width, b.width};
    g.produced(y, node);
  }
  return y;
}

Var append(Graph& g, const Var& before, const Var& piece) {
  if (!before) return piece;
  const std::int32_t node = g.node(append_backward, before, piece);
  Var joined = g.constant(before.elements + piece.elements, piece.width);
  if (node >= 0) {
    g.at(node).n = {before.elements, piece.elements};
    g.produced(joined, node);
  }
  return joined;
}

std::array<Var, 3> split(Graph& g, const Var& x, const std::array<std::int64_t, 3>& elements, bool head_major) {
  const std::int32_t node = g.node(split_backward, x);
  if (node >= 0) {
    g.at(node).n = {elements[0], elements[1], elements[2], x.elements};
    g.at(node).w[0] = head_major ? 1 : 0;
  }
  std::array<Var, 3> parts;
  for (std::size_t i = 0; i < 3; ++i) {
    if (elements[i] <= 0) continue;
    parts[i] = g.view(x, elements[i]);
    if (node >= 0) g.produced(parts[i], node, static_cast<std::uint8_t>(i));
  }
  return parts;
}

Var copy(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(copy_backward, x);
  Var y = g.alloc(x.elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var laid_out(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(laid_out_backward, x);
  Var y = g.alloc(x.elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var by_head(Graph& g, const Var& x, Name name) {
  Var y = copy(g, x, name);
  y.head_major = true;
  return y;
}

Var expand(Graph& g, const Var& x, std::int64_t times, Name name) {
  if (times == 1) return x;
  const std::int32_t node = g.node(expand_backward, x);
  Var y = g.alloc(x.elements * times, x.width, name);
  y.head_major = true;
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.produced(y, node);
  }
  return y;
}

Var expand_view(Graph& g, const Var& x, std::int64_t elements) {
  const std::int32_t node = g.node(expand_backward, x);
  if (node >= 0) g.at(node).n[0] = x.elements;
  Var y = g.view(x, elements);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace plimsoll::step::transformers
