// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/ops.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {

namespace {

void mean_backward(Graph& g, Node& node, Grads& result) { result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad); }

void rsqrt_backward(Graph& g, Node& node, Grads& result) {
  const Var& y = node.saved[0];
  Var cube = g.alloc(y.elements, y.width, Name::kGrad);
  Var half = g.alloc(y.elements, y.width, Name::kGrad);
  result[0] = g.alloc(y.elements, y.width, Name::kGrad);
  half.reset();
  cube.reset();
}

void softmax_backward(Graph& g, Node& node, Grads& result) {
  const Var& y = node.saved[0];
  result[0] = g.alloc(y.elements, y.width, Name::kAttentionTemp);
  result[0].head_major = true;
  Var product = g.alloc(y.elements, y.width, Name::kAttentionTemp);
}

// saved[0]: the input. Kernels want rows one after the other.
void layer_norm_backward(Graph& g, Node& node, Grads& result) {
  const Var laid_out = g.alloc(node.saved[0].head_major ? node.n[0] : 0, node.w[0], Name::kGrad);
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad);
  // One kernel sums the gradients of weight and bias.
  if (node.edges[1].exists()) result[1] = g.alloc(node.n[1], node.w[0], Name::kWeightGrad);
  if (node.edges[2].exists()) result[2] = g.alloc_beside(node.n[1], node.w[0], Name::kWeightGrad);
}

}  // namespace

void sum_to(Graph& g, Var& grad, std::int64_t elements, bool channels, bool leads) {
  if (!grad || elements <= 0) return;
  g.reads(grad.bytes());
  Var sum = g.alloc(elements, grad.width, channels ? Name::kWeightGrad : Name::kGrad);
  if (channels || leads) {
    const ReduceScratch scratch = outer_reduce_scratch(elements, grad.elements / elements, g.device().multiprocessors);
    Var partials = g.alloc_beside(scratch.partials, 1, Name::kGrad);
    Var semaphores = g.alloc_beside(scratch.semaphores, 1, Name::kGrad);
    if (semaphores) g.launches_inside(1);  // set to zero first
    semaphores.reset();
    partials.reset();
  }
  sum.head_major = grad.head_major;
  sum.per_channel = channels;
  grad = std::move(sum);
}

Var mean_rows(Graph& g, const Var& x, std::int64_t rows, Name name) {
  const std::int32_t node = g.node(mean_backward, x);
  Var y = g.alloc(rows, x.width, name);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = x.width;
    g.produced(y, node);
  }
  return y;
}

Var max_rows(Graph& g, const Var& x, std::int64_t rows, Name name) {
  const std::int32_t node = g.node(mean_backward, x);
  Var y = g.alloc(rows, x.width, name);
  const Var indices = g.alloc(rows, 8, name);
  g.save(node, indices);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = x.width;
    g.produced(y, node);
  }
  return y;
}

Var rsqrt(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(rsqrt_backward, x);
  Var y = g.alloc(x.elements, x.width, name);
  if (node >= 0) g.produced(y, node);
  g.save(node, y);
  return y;
}

Var softmax(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(softmax_backward, x);
  Var y = g.alloc(x.elements, x.width, name);
  y.head_major = true;
  if (node >= 0) g.produced(y, node);
  g.save(node, y);
  return y;
}

Var softmax_fp32(Graph& g, const Var& x, Name name) {
  const Var wide = cast(g, x, 4, Name::kAttentionTemp);
  return softmax(g, wide, name);
}

Var layer_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, Name name) {
  // Autocast runs layer_norm in fp32 (facts other-frameworks-memory.md 2.6).
  const std::uint8_t width = g.autocast ? 4 : x.width;
  Var b = bias >= 0 ? cast(g, g.use(bias), width, Name::kCastWeight) : Var{};
  Var w = weight >= 0 ? cast(g, g.use(weight), width, Name::kCastWeight) : Var{};
  return layer_norm_of(g, cast(g, x, width, Name::kCastInput), rows, w, b, name);
}

Var shifted_layer_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, Name name) {
  const std::uint8_t width = g.autocast ? 2 : x.width;
  Var shifted = add_number(g, g.use(weight), Name::kCastWeight);
  const Var input = cast(g, x, width, Name::kCastInput);
  const Var w = cast(g, shifted, width, Name::kCastWeight);
  shifted.reset();
  const Var b = cast(g, g.use(bias), width, Name::kCastWeight);
  return layer_norm_of(g, input, rows, w, b, name);
}

Var layer_norm_of(Graph& g, const Var& input, std::int64_t rows, const Var& w, const Var& b, Name name) {
  const std::uint8_t width = input.width;
  const std::int32_t node = g.node(layer_norm_backward, input, w, b);
  if (node >= 0) {
    g.at(node).n = {input.elements, w.elements};
    g.at(node).w[0] = width;
  }
  g.save(node, input);
  const Var laid_out = g.alloc(input.head_major ? input.elements : 0, width, Name::kHidden);
  Var y = g.alloc(input.elements, width, name);
  Var mean = g.alloc(rows, 4, Name::kNormStats);
  Var rstd = g.alloc(rows, 4, Name::kNormStats);
  g.save(node, mean);
  g.save(node, rstd);
  g.save(node, w);
  if (b) g.save(node, b);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var rms_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, Name name) {
  Var w = g.use(weight);
  const std::int32_t node = g.node(layer_norm_backward, x, w);
  if (node >= 0) {
    g.at(node).n = {x.elements, w.elements};
    g.at(node).w[0] = x.width;
  }
  g.save(node, x);
  Var y = g.alloc(x.elements, x.width, name);
  Var rstd = g.alloc(rows, 4, Name::kNormStats);
  g.save(node, rstd);
  g.save(node, w);
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace plimsoll::step::transformers
