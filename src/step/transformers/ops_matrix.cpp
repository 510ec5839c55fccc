// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/ops.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Elements of both features of a weight that can be loaded at once, up to 16 bytes.
std::uint8_t alignment(std::int64_t elements, std::int64_t out) {
  for (const std::uint8_t each : {std::uint8_t{8}, std::uint8_t{4}, std::uint8_t{2}})
    if (out % each == 0 && elements / out % each == 0) return each;
  return 1;
}

// n of a linear: elements of the input and of the weight, output features.
Var input_gradient(Graph& g, const Node& node) {
  const double out = real(node.n[2]);
  const double in = real(node.n[1]) / out;
  g.multiplies({real(node.n[0]) / in, in, out, 1, node.w[0], alignment(node.n[1], node.n[2])});
  Var grad = g.alloc(node.n[0], node.w[0], Name::kGrad);
  grad.is_view = node.w[3] == 0;
  return grad;
}

Var weight_gradient(Graph& g, const Node& node) {
  const double out = real(node.n[2]);
  const double in = real(node.n[1]) / out;
  g.multiplies({out, in, real(node.n[0]) / in, 1, node.w[0], alignment(node.n[1], node.n[2])});
  Var grad = g.alloc(node.n[1], node.w[0], Name::kWeightGrad);
  grad.is_view = true;
  return grad;
}

// Without a bias: the weight's gradient first.
void mm_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[1].exists()) {
    result[1] = weight_gradient(g, node);
    g.first_backward_product();
  }
  if (node.edges[0].exists()) {
    result[0] = input_gradient(g, node);
    g.first_backward_product();
  }
}

// With a bias: input, weight, then the bias as a sum over rows.
void addmm_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[0].exists()) {
    result[0] = input_gradient(g, node);
    g.first_backward_product();
  }
  if (node.edges[1].exists()) {
    result[1] = weight_gradient(g, node);
    g.first_backward_product();
  }
  g.drop_replayed(node);
  if (node.edges[2].exists()) {
    result[2] = node.grads[0];
    sum_to(g, result[2], node.n[2], true);
  }
}

void batched_backward(Graph& g, Node& node, Grads& result) {
  if (!node.grads[0].head_major) {
    Var laid_out = g.alloc(node.grads[0].elements, node.grads[0].width, Name::kGrad);
    node.grads[0] = std::move(laid_out);
  }
  // n: elements of both factors, then rows, depth and columns of the forward.
  const double m = real(node.n[2]);
  const double k = real(node.n[3]);
  const double n = real(node.n[4]);
  const double count = real(node.n[0]) / (m * k);
  for (std::size_t i = 2; i-- > 0;) {
    if (!node.edges[i].exists()) continue;
    g.multiplies(i == 0 ? Product{m, k, n, count, node.w[0]} : Product{k, n, m, count, node.w[0]});
    result[i] = g.alloc(node.n[i], node.w[0], Name::kGrad);
    result[i].is_view = true;
    result[i].head_major = true;
    g.first_backward_product();
  }
}

void quantized_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.n[1] / 2);  // four bits each
  Var matrix = g.alloc(node.n[1], node.w[0], Name::kDequantized);
  result[0] = input_gradient(g, node);
  g.first_backward_product();
}

// Input and weight each take a workspace, the bias does not. n: input, weight, bias, output, channels.
void convolution_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t workspace = convolution_workspace(node.n[0], node.n[1], node.n[3], node.n[4], node.w[0]);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!node.edges[i].exists()) continue;
    result[i] = g.alloc(node.n[i], node.w[0], i == 0 ? Name::kGrad : Name::kWeightGrad);
    const Var scratch = g.alloc(workspace, 1, Name::kGrad);
  }
  if (node.edges[2].exists()) result[2] = g.alloc(node.n[2], node.w[0], Name::kWeightGrad);
}

// Input, weight and bias, each of its own; the input's gradient is laid out through a copy.
void depthwise_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[0].exists()) {
    Var laid_out = g.alloc(node.n[0], node.w[0], Name::kGrad);
    result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad);
  }
  if (node.edges[1].exists()) result[1] = g.alloc(node.n[1], node.w[0], Name::kWeightGrad);
  if (node.edges[2].exists()) result[2] = g.alloc(node.n[2], node.w[0], Name::kWeightGrad);
}

}  // namespace

namespace {

struct Convolved {
  Var input, matrix, bias;
  std::int32_t node = -1;
};

Convolved begin_convolution(Graph& g, Backward backward, const Var& x, std::int32_t w, std::int32_t bias) {
  Convolved c;
  c.input = g.autocast ? cast(g, x, 2, Name::kCastInput) : x;
  if (bias >= 0) c.bias = g.autocast ? g.cast_weight(bias) : g.use(bias);
  c.matrix = g.autocast ? g.cast_weight(w) : g.use(w);
  c.node = g.node(backward, c.input, c.matrix, c.bias);
  if (c.node >= 0) {
    g.at(c.node).n = {c.input.elements, c.matrix.elements, c.bias.elements};
    g.at(c.node).w[0] = c.input.width;
  }
  g.save(c.node, c.input);
  g.save(c.node, c.matrix);
  return c;
}

}  // namespace

Var depthwise_convolution(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, std::int64_t elements) {
  const Convolved c = begin_convolution(g, depthwise_backward, x, w, bias);
  const Var laid_out = g.alloc(c.input.elements, c.input.width, Name::kHidden);
  Var y = g.alloc(elements, c.input.width, Name::kActivation);
  if (c.node >= 0) g.produced(y, c.node);
  return y;
}

Var convolution(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, std::int64_t elements,
                std::int64_t channels) {
  const Convolved c = begin_convolution(g, convolution_backward, x, w, bias);
  const Weight& weight = g.weight(w);
  g.multiplies({real(elements / weight.out), real(weight.out), real(weight.elements / weight.out), 1, c.input.width,
                alignment(weight.elements, weight.out)});
  Var y = g.alloc(elements, c.input.width, Name::kActivation);
  const Var workspace = g.alloc(
      convolution_workspace(c.input.elements, c.matrix.elements, elements, channels, c.input.width), 1, Name::kHidden);
  if (c.node >= 0) {
    g.at(c.node).n[3] = elements;
    g.at(c.node).n[4] = channels;
    g.produced(y, c.node);
  }
  return y;
}

namespace {

Var multiply(Graph& g, const Var& input, const Var& matrix, const Var& b, std::int64_t elements, std::int64_t out,
             Name name) {
  const std::int64_t in = elements / out;
  const bool has_bias = static_cast<bool>(b);
  const std::int32_t node = has_bias ? g.node(addmm_backward, input, matrix, b) : g.node(mm_backward, input, matrix);
  if (node >= 0) {
    g.at(node).n = {input.elements, elements, out};
    g.at(node).w[0] = input.width;
  }
  const bool keeps_input = matrix.has_grad();
  const bool keeps_matrix = input.has_grad();
  if (has_bias) {
    if (keeps_input) g.save(node, input);
    if (keeps_matrix) g.save(node, matrix);
  } else {
    if (keeps_matrix) g.save(node, matrix);
    if (keeps_input) g.save(node, input);
  }
  Var y = g.reuse_result(true);
  if (!y) {
    g.multiplies({real(input.elements / in), real(out), real(in), 1, input.width, alignment(elements, out)});
    y = g.alloc(input.elements / in * out, input.width, name);
  }
  g.keep_result(y, true);
  g.first_forward_product(has_bias);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace

Var linear_with(Graph& g, const Var& x, const Var& matrix, std::int32_t like, Name name) {
  const Weight& weight = g.weight(like);
  const Var input = g.autocast ? cast(g, x, 2, Name::kCastInput) : x;
  return multiply(g, input, cast(g, matrix, input.width, Name::kCastWeight), {}, weight.elements, weight.out, name);
}

Var linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name) {
  const Weight& weight = g.weight(w);
  if (weight.float8 != Float8::kNone) return float8_linear(g, x, w, bias, name);
  const std::int64_t out = weight.out;
  Var b, matrix, input;
  if (g.autocast && weight.by_input) {  // addmm(bias, x, w) of GPT-2: arguments are cast from the last
    matrix = g.cast_weight(w);
    input = cast(g, x, 2, Name::kCastInput);
    if (bias >= 0) b = g.cast_weight(bias);
  } else if (g.autocast) {
    if (bias >= 0) b = g.cast_weight(bias);
    matrix = g.cast_weight(w);
    input = cast(g, x, 2, Name::kCastInput);
  } else {
    if (bias >= 0) b = g.use(bias);
    matrix = cast(g, g.use(w), x.width, Name::kCastWeight);
    input = x;
  }
  return multiply(g, input, matrix, b, weight.elements, out, name);
}

Var quantized_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name) {
  const Weight& weight = g.weight(w);
  const std::int64_t in = weight.elements / weight.out;
  const Var input = cast(g, x, weight.width, Name::kHidden);
  const std::int32_t node = g.node(quantized_backward, input);
  if (node >= 0) {
    g.at(node).n = {input.elements, weight.elements, weight.out};
    g.at(node).w[0] = input.width;
  }
  g.save(node, g.constant(weight.elements, weight.width));
  g.reads(weight.elements / 2);  // four bits each
  Var matrix = g.alloc(weight.elements, weight.width, Name::kDequantized);
  g.multiplies(
      {real(input.elements / in), real(weight.out), real(in), 1, input.width, alignment(weight.elements, weight.out)});
  Var y = g.alloc(input.elements / in * weight.out, input.width, name);
  matrix.reset();
  if (node >= 0) g.produced(y, node);
  if (bias >= 0) y = add(g, y, g.use(bias), name);
  return cast(g, y, x.width, name);
}

Var batched_matmul(Graph& g, const Var& a, const Var& b, const BatchShape& shape, Name name) {
  const auto laid_out = [&](const Var& x, std::int64_t elements) {
    if (x.head_major) return x;
    Var y = copy(g, x, Name::kHidden);
    y.head_major = true;
    y.elements = g.stopped() ? 0 : elements;
    return y;
  };
  Var left = laid_out(a, shape.count * shape.m * shape.k);
  Var right = laid_out(b, shape.count * shape.k * shape.n);
  if (g.autocast) {
    left = cast(g, left, 2, Name::kCastInput);
    right = cast(g, right, 2, Name::kCastInput);
  }
  const std::int32_t node = g.node(batched_backward, left, right);
  if (node >= 0) {
    g.at(node).n = {left.elements, right.elements, shape.m, shape.k, shape.n};
    g.at(node).w[0] = left.width;
  }
  if (left.has_grad()) g.save(node, right);
  if (right.has_grad()) g.save(node, left);
  g.multiplies({real(shape.m), real(shape.n), real(shape.k), real(shape.count), left.width});
  Var y = g.alloc(shape.count * shape.m * shape.n, left.width, name);
  y.head_major = true;
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace plimsoll::step::transformers
