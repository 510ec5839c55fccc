// SPDX-License-Identifier: Apache-2.0
// A product with an 8-bit weight as bitsandbytes computes it: the input is quantised row by row, the product is made in
// 32-bit integers, and what comes out is scaled to 16 bits (facts other-frameworks-memory.md 3.6).
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// The weight is converted to the input's dtype and scaled in place. n: input, weight, output features.
void eight_bit_backward(Graph& g, Node& node, Grads& result) {
  g.reads(node.n[1]);  // a byte each
  Var matrix = g.alloc(node.n[1], node.w[0], Name::kDequantized);
  const double out = real(node.n[2]);
  const double in = real(node.n[1]) / out;
  g.multiplies({real(node.n[0]) / in, in, out, 1, node.w[0]});
  result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad);
  result[0].is_view = true;
  g.first_backward_product();
}

}  // namespace

Var eight_bit_linear(Graph& g, const Var& x, std::int32_t w, std::int32_t bias, bool is_fp16, Name name) {
  const Weight& weight = g.weight(w);
  const std::int64_t in = weight.elements / weight.out;
  const std::int64_t rows = x.elements / in;
  const std::int32_t node = g.node(eight_bit_backward, x);
  if (node >= 0) {
    g.at(node).n = {x.elements, weight.elements, weight.out};
    g.at(node).w[0] = x.width;
  }
  g.save(node, x);  // as it came, for columns of outliers, though only the weight is needed
  Var half, bytes, scales;
  if (!is_fp16 || x.width != 2) half = g.alloc(x.elements, 2, Name::kDequantized);
  {
    const Var absolute = g.make(x.elements, 2, Name::kDequantized);
    const Var is_outlier = g.make(x.elements, 1, Name::kDequantized);
  }
  g.reads(2 * x.elements);
  bytes = g.alloc(x.elements, 1, Name::kDequantized);
  scales = g.alloc(rows, 4, Name::kDequantized);
  half.reset();
  g.reads(weight.elements + x.elements);
  g.multiplies({real(rows), real(weight.out), real(in), 1, 2});
  Var integers = g.alloc(rows * weight.out, 4, Name::kDequantized);
  Var scaled = g.make(rows * weight.out, 2, Name::kDequantized);
  Var y = scaled;
  if (!is_fp16 || x.width != 2) y = g.make(rows * weight.out, x.width, Name::kDequantized);
  scaled.reset();
  integers.reset();
  y = g.make(rows * weight.out, x.width, name);  // the columns of outliers are added
  if (node >= 0) g.produced(y, node);
  if (bias >= 0) y = add(g, y, g.use(bias), name);
  return y;
}

}  // namespace plimsoll::step::transformers
