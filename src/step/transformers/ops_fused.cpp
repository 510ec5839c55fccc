// SPDX-License-Identifier: Apache-2.0
// Fused kernels that replace chains of operations: Liger's norm, SwiGLU and rotation, and losses that
// never hold all logits (facts other-frameworks-memory.md 2.5, 6.4).
#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// The input's gradient overwrites the output's; the weight's is summed from one row per multiprocessor.
void liger_norm_backward(Graph& g, Node& node, Grads& result) {
  Var partial = g.alloc(g.device().multiprocessors * node.n[1], 4, Name::kGrad);
  if (node.edges[0].exists()) result[0] = node.grads[0];
  if (node.edges[1].exists()) {
    Var sum = g.alloc(node.n[1], 4, Name::kGrad);
    result[1] = node.w[0] == 4 ? sum : g.alloc(node.n[1], node.w[0], Name::kWeightGrad);
  }
}

// tanh(x c (1 + d x x)), as an expression drops its values.
Var tanh_of_bent(Graph& g, const Var& x) {
  const auto fresh = [&] { return g.alloc(x.elements, x.width, Name::kHidden); };
  Var scaled = fresh();
  Var bent = fresh();
  bent = fresh();  // d x x
  bent = fresh();  // 1 + d x x
  scaled = fresh();
  bent.reset();
  return fresh();
}

// 0.5 x ((1 - t t)(c + e x x)) + 0.5 (1 + t), times the gradient.
void bloom_gelu_backward(Graph& g, Node& node, Grads& result) {
  const Var& x = node.saved[0];
  const auto fresh = [&] { return g.alloc(x.elements, x.width, Name::kGrad); };
  Var tanh = tanh_of_bent(g, x);
  Var sum;
  {
    Var half = fresh();
    Var slope = fresh();
    slope = fresh();  // 1 - t t
    {
      Var bent = fresh();
      bent = fresh();
      bent = fresh();
      slope = fresh();
    }
    half = fresh();
    slope.reset();
    Var rest = fresh();
    rest = fresh();
    sum = fresh();
  }
  result[0] = fresh();
  sum.reset();
  tanh.reset();
}

void fused_norm_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[0].exists()) result[0] = g.alloc(node.n[0], node.w[0], Name::kGrad);
  for (std::size_t i = 1; i < 3; ++i)
    if (node.edges[i].exists()) result[i] = g.alloc(node.n[1], node.w[1], Name::kWeightGrad);
}

void fused_add_backward(Graph&, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i)
    if (node.edges[i].exists()) result[i] = node.grads[0];
}

void fused_cross_entropy_backward(Graph&, Node& node, Grads& result) { result[0] = node.saved[0]; }

// Gradients of gate and up overwrite their values.
void liger_swiglu_backward(Graph&, Node& node, Grads& result) {
  for (std::size_t i = 0; i < 2; ++i)
    if (node.edges[i].exists()) result[i] = node.saved[i];
}

void in_place_backward(Graph&, Node& node, Grads& result) { result[0] = node.grads[0]; }

// saved: the gradients that forward computed, of the hidden state and of the head's weight.
void fused_loss_backward(Graph& g, Node& node, Grads& result) {
  if (node.edges[0].exists()) {
    result[0] = node.w[0] == node.saved[0].width ? node.saved[0] : g.alloc(node.n[0], node.w[0], Name::kGrad);
    result[0].node = -1;
  }
  if (node.edges[1].exists()) result[1] = node.saved[1];
  for (Var& value : node.saved) value.reset();
}

// Three products over all chunks, all of them in forward, and passes over the logits: one kernel that reads and
// overwrites them, or the fp32 copy, softmax and gradients of plain operations.
void meter_loss(Graph& g, const Var& hidden, const Var& matrix, const FusedLoss& loss) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double tokens = real(loss.tokens);
  const double vocabulary = real(loss.vocabulary);
  const double width = real(hidden.elements) / tokens;
  const std::int64_t logits = loss.tokens * loss.vocabulary;
  g.meter->in_place(logits * (loss.unfused ? 40 : 6));
  g.multiplies({tokens, vocabulary, width, 1, 2});
  g.multiplies({tokens, width, vocabulary, 1, 2});
  if (matrix.has_grad()) g.multiplies({vocabulary, width, tokens, 1, 2});
}

}  // namespace

Var liger_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, Name name) {
  const Var w = g.use(weight);
  const std::int32_t node = g.node(liger_norm_backward, x, w);
  if (node >= 0) {
    g.at(node).n = {x.elements, w.elements};
    g.at(node).w[0] = w.width;
  }
  Var y = g.alloc(x.elements, x.width, name);
  Var rstd = g.alloc(rows, 4, Name::kNormStats);
  g.save(node, x);
  g.save(node, w);
  g.save(node, rstd);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var bloom_gelu(Graph& g, const Var& x, Name name) {
  const std::int32_t node = g.node(bloom_gelu_backward, x);
  Var y;
  {
    Var half = g.alloc(x.elements, x.width, Name::kHidden);
    Var tanh = tanh_of_bent(g, x);
    tanh = g.alloc(x.elements, x.width, Name::kHidden);  // 1 + tanh
    y = g.alloc(x.elements, x.width, name);
  }
  g.save(node, x);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var fused_norm(Graph& g, const Var& x, std::int64_t rows, std::int32_t weight, std::int32_t bias, std::uint8_t width) {
  const Var w = weight >= 0 ? g.use(weight) : Var{};
  const Var b = bias >= 0 ? g.use(bias) : Var{};
  const std::int32_t node = g.node(fused_norm_backward, x, w, b);
  if (node >= 0) {
    g.at(node).n = {x.elements, w.elements};
    g.at(node).w = {x.width, w.width};
  }
  Var y = g.alloc(x.elements, width, Name::kNormOutput);
  const Var deviation = g.alloc(rows, 4, Name::kNormStats);
  const Var mean = g.alloc(bias >= 0 ? rows : 0, 4, Name::kNormStats);
  g.save(node, deviation);
  g.save(node, mean);
  g.save(node, y);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var fused_add(Graph& g, const Var& residual, const Var& branch) {
  const std::int32_t node = g.node(fused_add_backward, residual, branch);
  g.save(node, residual);
  g.save(node, branch);
  Var y = g.constant(residual.elements, std::max(residual.width, branch.width));
  if (node >= 0) g.produced(y, node);
  return y;
}

Var fused_cross_entropy(Graph& g, const Var& logits, const Var& labels, std::int64_t rows) {
  const std::int32_t node = g.node(fused_cross_entropy_backward, logits);
  g.save(node, logits);
  g.save(node, labels);
  for (int i = 0; i < 2; ++i) g.save(node, g.alloc(rows, 4, Name::kTokens));  // largest logit and sum
  Var loss = g.alloc(1, 4, Name::kTokens);
  if (node >= 0) g.produced(loss, node);
  return loss;
}

Var liger_swiglu(Graph& g, const Var& gate, const Var& up, Name name) {
  const std::int32_t node = g.node(liger_swiglu_backward, gate, up);
  Var y = g.alloc(gate.elements, gate.width, name);
  g.save(node, gate);
  g.save(node, up);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var in_place(Graph& g, const Var& x, const Var& saved_a, const Var& saved_b) {
  const std::int32_t node = g.node(in_place_backward, x);
  g.save(node, saved_a);
  g.save(node, saved_b);
  Var y = x;
  if (node >= 0) g.produced(y, node);
  return y;
}

std::int64_t liger_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden) {
  const std::int64_t chunks = ceil_div(vocabulary, std::max<std::int64_t>(1, hidden));
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(tokens, chunks))));
}

Var fused_loss(Graph& g, const Var& hidden, const FusedLoss& loss) {
  const Var matrix = g.autocast ? g.cast_weight(loss.weight) : g.use(loss.weight);
  const std::int32_t node = g.node(fused_loss_backward, hidden, matrix);
  if (node >= 0) {
    g.at(node).n[0] = hidden.elements;
    g.at(node).w[0] = hidden.width;
  }
  const bool trains_head = matrix.has_grad();
  if (g.meter != nullptr && !g.stopped()) meter_loss(g, hidden, matrix, loss);
  Var grad_hidden = g.alloc(hidden.elements, loss.wide_gradient ? 4 : hidden.width, Name::kLogitsGrad);
  Var grad_weight = trains_head ? g.alloc(matrix.elements, matrix.width, Name::kWeightGrad) : Var{};
  Var per_token = g.alloc(loss.tokens, 4, Name::kTokens);
  const std::int64_t chunk = std::min(loss.chunk, loss.tokens);
  for (std::int64_t done = 0, round = 0; done < loss.tokens && round < 2; done += chunk, ++round) {
    Var logits = g.alloc(chunk * loss.vocabulary, 2, Name::kLogits);
    if (loss.unfused) {  // plain operations on the chunk: fp32 copy, log-softmax and their gradients
      Var wide = g.alloc(chunk * loss.vocabulary, 4, Name::kLogitsFp32);
      Var probabilities = g.alloc(chunk * loss.vocabulary, 4, Name::kLogitsFp32);
      wide.reset();
      logits.reset();
      Var likelihood = g.alloc(chunk * loss.vocabulary, 4, Name::kLogitsGrad);
      Var gradient = g.alloc(chunk * loss.vocabulary, 4, Name::kLogitsGrad);
      likelihood.reset();
      probabilities.reset();
      logits = g.alloc(chunk * loss.vocabulary, 2, Name::kLogitsGrad);
    }
    Var part = g.alloc(chunk * (hidden.elements / loss.tokens), hidden.width, Name::kLogitsGrad);
  }
  Var value = g.alloc(1, 4, Name::kTokens);
  g.save(node, grad_hidden);
  g.save(node, grad_weight);
  if (node >= 0) g.produced(value, node);
  return value;
}

}  // namespace plimsoll::step::transformers
