// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of the tokens that were said, out of logits (facts other-frameworks-memory.md 2.5.1).
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Zeros of all logits, and one number for each token among them. n: elements; w: width.
void gather_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.make(node.n[0], node.w[0], Name::kLogitsGrad);
  g.runs_small(1);
}

// Of every sequence what its logarithm of a sum, or its softmax, sends back; then all of them in one tensor.
// n: elements, sequences, temporaries of a sequence beside its gradient.
void rows_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t row = node.n[0] / node.n[1];
  std::vector<Var> rows;
  for (std::int64_t i = 0; i < node.n[1]; ++i) {
    std::vector<Var> temporaries;
    for (std::int64_t t = 0; t < node.n[2]; ++t) {
      g.reads(row * node.w[0]);
      temporaries.push_back(g.alloc(row, node.w[0], Name::kLossTemp));
    }
    g.reads(2 * row * node.w[0]);
    rows.push_back(g.alloc(row, node.w[0], Name::kLogitsGrad));
  }
  g.reads(node.n[0] * node.w[0]);
  result[0] = g.alloc(node.n[0], node.w[0], Name::kLogitsGrad);
}

Var gathered(Graph& g, const Var& logits, std::int64_t count) {
  const Var ids = g.make(count, 8, Name::kTokens);
  const std::int32_t node = g.node(gather_backward, logits);
  if (node >= 0) {
    g.at(node).n[0] = logits.elements;
    g.at(node).w[0] = logits.width;
  }
  g.save(node, logits);
  g.save(node, ids);
  g.reads(ids.bytes());
  Var chosen = g.alloc(count, logits.width, Name::kTokens);
  if (node >= 0) g.produced(chosen, node);
  return chosen;
}

}  // namespace

Var token_log_probabilities(Graph& g, const Var& logits, std::int64_t batch, std::int64_t sequence) {
  const std::int64_t count = batch * (sequence - 1);
  if (count <= 0) return logits;
  const std::int64_t elements = logits.elements / (batch * sequence) * count;
  const Var shifted = slice(g, logits, elements, false);
  const bool wide = logits.width == 4;
  Var chosen;
  if (wide) chosen = gathered(g, shifted, count);
  const std::int32_t node = g.node(rows_backward, shifted);
  constexpr std::int64_t kDifferenceAndPower = 2;
  constexpr std::int64_t kZeros = 1;
  if (node >= 0) {
    g.at(node).n = {elements, batch, wide ? kDifferenceAndPower : kZeros};
    g.at(node).w[0] = logits.width;
  }
  if (wide) {  // the logarithm of the sum of powers, one sequence after the other
    g.save(node, shifted);
    for (std::int64_t i = 0; i < batch; ++i) {
      g.reads(2 * elements / batch * logits.width);
      const Var powers = g.alloc(elements / batch, logits.width, Name::kLossTemp);
    }
  } else {  // in 16 bits the softmax itself, which backward needs
    g.reads(elements * logits.width);
    const Var probabilities = g.alloc(elements, logits.width, Name::kLogitsFp32);
    g.save(node, probabilities);
  }
  Var sums = g.alloc(count, logits.width, Name::kTokens);
  if (node >= 0) g.produced(sums, node);
  return wide ? add(g, chosen, sums, Name::kTokens) : sums;
}

}  // namespace plimsoll::step::transformers
