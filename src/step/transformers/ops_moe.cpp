// SPDX-License-Identifier: Apache-2.0
// Operations of routed experts: gathers by index, masked copies, top-k and products grouped by expert.
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kGroupedScratch = 67584;  // kernel arguments and workspace of a grouped product
constexpr std::int64_t kSortScratch = 67071;

// Accumulating by index sorts the indices first.
void gather_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t indices = node.n[1];
  // Rows with the same index are added in turn: of a token few, of the bias of an expert all that it got.
  if (g.meter != nullptr && !g.stopped() && node.n[0] > 0)
    g.meter->adds_in_turn(static_cast<double>(node.grads[0].elements) / static_cast<double>(node.n[0]));
  result[0] = g.alloc(node.n[0], node.grads[0].width, Name::kMoeTemp);
  Var linear_index;
  {
    Var scaled = g.alloc(indices, 8, Name::kMoeTemp);
    linear_index = g.alloc(indices, 8, Name::kMoeTemp);
  }
  Var sorted = g.alloc(indices, 8, Name::kMoeTemp);
  Var origin = g.alloc(indices, 8, Name::kMoeTemp);
  Var range = g.alloc(indices, 8, Name::kMoeTemp);
  Var scratch = g.alloc(kSortScratch, 1, Name::kMoeTemp);
}

// A mask that is broadcast over rows keeps the kernel from loading vectors: 3.6e11 elements per second in profiles of
// Qwen3-MoE, Qwen2-MoE, DeepSeek-V2 and Mixtral on an H200.
void fill_where_masked(Graph& g, const Var& x) {
  if (g.meter != nullptr && !g.stopped()) g.meter->in_place(2 * x.bytes(), x.elements);
}

// Out of place a fill is a copy that is then filled.
void masked_fill_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.grads[0].elements, node.grads[0].width, Name::kMoeTemp);
  fill_where_masked(g, result[0]);
}

// n: elements of the input.
void choose_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.grads[0].elements, node.grads[0].width, Name::kGrad);
  if (result[0].elements != node.n[0]) sum_to(g, result[0], node.n[0], false);
}

void top_k_backward(Graph& g, Node& node, Grads& result) { result[0] = g.alloc(node.n[0], 4, Name::kRouter); }

double real(std::int64_t value) { return static_cast<double>(value); }

// n: elements of the input and of the experts' weight, rows, output features.
void grouped_backward(Graph& g, Node& node, Grads& result) {
  const double rows = real(node.n[2]);
  const double out = real(node.n[3]);
  const double in = real(node.n[0]) / rows;
  const double experts = real(node.n[1]) / (in * out);
  for (std::size_t i = 2; i-- > 0;) {
    if (!node.edges[i].exists()) continue;
    // A weight gradient has the rows as its depth, cut by expert.
    g.multiplies(i == 0 ? Product{rows, in, out, experts, node.w[0], true, ProductKind::kGrouped}
                        : Product{out, in, rows, experts, node.w[0], true, ProductKind::kGroupedWeight});
    result[i] = g.alloc(node.n[i], node.w[0], i == 0 ? Name::kMoeTemp : Name::kWeightGrad);
    Var scratch = g.alloc(kGroupedScratch, 1, Name::kMoeTemp);
  }
}

void sum_copies_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.n[0], node.w[0], Name::kMoeTemp);
}

void add_rows_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[0].exists()) result[0] = node.grads[0];
  if (node.edges[1].exists()) result[1] = g.alloc(node.n[0], node.grads[0].width, Name::kMoeTemp);
}

// What was replaced gets no gradient; what replaced it gets that of its places, found by their indices.
void masked_scatter_backward(Graph& g, Node& node, Grads& result) {
  const Var& grad = node.grads[0];
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[0], grad.width, Name::kGrad);
  if (!node.edges[1].exists()) return;
  constexpr std::int64_t kDimensions = 3;
  Var indices = g.alloc(kDimensions * node.n[1], 8, Name::kAttentionTemp);
  result[1] = g.alloc(node.n[1], grad.width, Name::kGrad);
}

void average_pool_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.alloc(node.n[0], node.grads[0].width, Name::kGrad);
}

}  // namespace

Var average_pool(Graph& g, const Var& x, std::int64_t elements, Name name) {
  const std::int32_t node = g.node(average_pool_backward, x);
  if (node >= 0) g.at(node).n[0] = x.elements;
  g.save(node, x);
  Var y = g.alloc(elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var masked_scatter(Graph& g, const Var& x, const Var& source, const Var& mask, Name name) {
  const std::int32_t node = g.node(masked_scatter_backward, x, source);
  if (node >= 0) g.at(node).n = {x.elements, source.elements};
  g.save(node, mask);
  Var y = g.alloc(x.elements, x.width, name);
  {
    const Var counted = g.alloc(x.elements, 8, Name::kMask);
    const Var spread = g.alloc(x.elements, 1, Name::kMask);
  }
  if (node >= 0) g.produced(y, node);
  return y;
}

Var gather(Graph& g, const Var& x, const Var& index, std::int64_t elements, Name name) {
  const std::int32_t node = g.node(gather_backward, x);
  if (node >= 0) g.at(node).n = {x.elements, index.elements};
  g.save(node, index);
  Var y = g.alloc(elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var masked_fill(Graph& g, const Var& x, const Var& mask, bool in_place, Name name) {
  const std::int32_t node = g.node(masked_fill_backward, x);
  g.save(node, mask);
  Var y = in_place ? x : g.alloc(x.elements, x.width, name);
  fill_where_masked(g, y);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var choose(Graph& g, const Var& x, const Var& mask, std::int64_t elements, Name name) {
  const std::int32_t node = g.node(choose_backward, x);
  if (node >= 0) g.at(node).n[0] = x.elements;
  g.save(node, mask);
  Var y = g.alloc(elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var top_k(Graph& g, const Var& scores, std::int64_t elements, Var& indices) {
  const std::int32_t node = g.node(top_k_backward, scores);
  if (node >= 0) g.at(node).n[0] = scores.elements;
  Var values = g.alloc(elements, scores.width, Name::kRouter);
  indices = g.alloc(elements, 8, Name::kRouter);
  g.save(node, indices);
  if (node >= 0) g.produced(values, node);
  return values;
}

Var grouped_matmul(Graph& g, const Var& x, std::int32_t w, std::int64_t rows, std::int64_t out, Name name) {
  Var matrix = g.use(w);
  Var input = cast(g, x, matrix.width, Name::kCastInput);
  const std::int32_t node = g.node(grouped_backward, input, matrix);
  if (node >= 0) {
    g.at(node).n = {input.elements, matrix.elements, rows, out};
    g.at(node).w[0] = matrix.width;
  }
  if (input.has_grad()) g.save(node, matrix);
  if (matrix.has_grad()) g.save(node, input);
  const double in = real(input.elements) / real(rows);
  const double experts = real(matrix.elements) / (in * real(out));
  g.multiplies({real(rows), real(out), in, experts, matrix.width, true, ProductKind::kGrouped});
  Var y = g.alloc(rows * out, matrix.width, name);
  {
    Var scratch = g.alloc(kGroupedScratch, 1, Name::kMoeTemp);
  }
  if (node >= 0) g.produced(y, node);
  return y;
}

Var add_rows(Graph& g, const Var& to, const Var& rows, const Var& index) {
  const std::int32_t node = g.node(add_rows_backward, to, rows);
  if (node >= 0) g.at(node).n[0] = rows.elements;
  g.save(node, index);
  Var y = to;
  if (node >= 0) g.produced(y, node);
  return y;
}

Var sum_copies(Graph& g, const Var& x, std::int64_t elements, Name name) {
  const std::int32_t node = g.node(sum_copies_backward, x);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = x.width;
  }
  // Autocast sums in fp32.
  Var y = g.alloc(elements, g.autocast ? std::uint8_t{4} : x.width, name);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace plimsoll::step::transformers
