// SPDX-License-Identifier: Apache-2.0
// A product of torchao's Float8Linear: its factors are kept in 16 bits and converted for every product, forward and
// backward (facts other-frameworks-memory.md 6.5).
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// One byte for each element. Without a compiler its largest element is found in a copy of absolute values, and fp32
// copies are scaled and clamped.
Var to_float8(Graph& g, std::int64_t elements, std::uint8_t width, Float8 how) {
  if (how == Float8::kEager) {
    g.reads(elements * width);
    const Var absolute = g.alloc(elements, width, Name::kDequantized);
  }
  Var scaled, clamped;
  if (how == Float8::kEager) {
    {
      const Var wide = g.make(elements, 4, Name::kDequantized);
      scaled = g.make(elements, 4, Name::kDequantized);
    }
    clamped = g.make(elements, 4, Name::kDequantized);
  }
  g.reads(elements * (how == Float8::kEager ? 4 : width));
  return g.alloc(elements, 1, Name::kDequantized);
}

// n: input, weight, output features; w: width of the input, how, and whether the weight is converted already. What is
// converted lives until the function returns; a compiler converts the gradient once.
void float8_backward(Graph& g, Node& node, Grads& result) {
  const auto how = static_cast<Float8>(node.w[1]);
  const double out = real(node.n[2]);
  const double in = real(node.n[1]) / out;
  const double rows = real(node.n[0]) / in;
  const std::int64_t gradient = node.n[0] / (node.n[1] / node.n[2]) * node.n[2];
  const Var by_row = to_float8(g, gradient, node.w[0], how);
  Var weight, by_column, input;
  if (node.edges[0].exists()) {
    if (node.w[2] == 0) weight = to_float8(g, node.n[1], node.w[0], how);
    g.multiplies({rows, in, out, 1, 1});
    result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad);
    result[0].is_view = true;
    g.first_backward_product();
  }
  if (node.edges[1].exists()) {
    if (how == Float8::kEager) by_column = to_float8(g, gradient, node.w[0], how);
    input = to_float8(g, node.n[0], node.w[0], how);
    g.multiplies({out, in, rows, 1, 1});
    result[1] = g.alloc(node.n[1], node.w[0], Name::kWeightGrad);
    result[1].is_view = true;
    g.first_backward_product();
  }
}

}  // namespace

Var float8_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, Name name) {
  const Weight& weight = g.weight(w);
  const Var matrix = g.use(w);
  const std::int64_t in = weight.elements / weight.out;
  const std::int64_t rows = x.elements / in;
  const std::int32_t node = g.node(float8_backward, x, matrix);
  if (node >= 0) {
    g.at(node).n = {x.elements, weight.elements, weight.out};
    g.at(node).w = {x.width, static_cast<std::uint8_t>(weight.float8),
                    static_cast<std::uint8_t>(weight.gathered_float8 ? 1 : 0)};
  }
  g.save(node, x);
  g.save(node, matrix);
  Var y = g.reuse_result(true);
  if (!y) {
    const Var input = to_float8(g, x.elements, x.width, weight.float8);
    Var converted;
    if (!weight.gathered_float8) converted = to_float8(g, weight.elements, weight.width, weight.float8);
    g.multiplies({real(rows), real(weight.out), real(in), 1, 1});
    y = g.alloc(rows * weight.out, x.width, name);
  }
  g.keep_result(y, true);
  g.first_forward_product(false);
  if (node >= 0) g.produced(y, node);
  if (bias >= 0) y = add(g, y, g.use(bias), name);
  return y;
}

}  // namespace plimsoll::step::transformers
