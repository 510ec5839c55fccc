// SPDX-License-Identifier: Apache-2.0
// What DTensor does where a model is divided over tensor-parallel ranks: it gathers and scatters sequences, holds a
// part of the vocabulary and computes its loss in parts (facts other-frameworks-memory.md 6.4).
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Messages are laid out rank after rank. Where more than one sequence runs, their parts must be put together anew.
Var gathered(Graph& g, std::int64_t elements, std::uint8_t width, bool joins, Name name) {
  Var message = g.alloc(elements, width, name);
  if (!joins) return message;
  g.reads(message.bytes());
  Var joined = g.alloc(elements, width, name);
  return joined;
}

// The parts of every rank are laid out one after the other before they are sent, whatever the number of sequences.
Var laid_out(Graph& g, const Var& x) {
  g.reads(x.bytes());
  return g.alloc(x.elements, x.width, Name::kMessage);
}

// n: elements of the input.
void gather_backward(Graph& g, Node& node, Grads& result) {
  const Var message = laid_out(g, node.grads[0]);
  result[0] = g.alloc(node.n[0], node.grads[0].width, Name::kGrad);
}

// n: elements of the input; w: whether parts are put together.
void scatter_backward(Graph& g, Node& node, Grads& result) {
  result[0] = gathered(g, node.n[0], node.grads[0].width, node.w[0] != 0, Name::kGrad);
}

// One kernel after the other over this rank's part: targets are marked, probabilities added, and the sum scaled.
// n: elements, tokens.
void split_loss_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t elements = node.n[0];
  const std::int64_t tokens = node.n[1];
  Var targets = g.alloc(tokens, 8, Name::kTokens);
  Var marked = g.alloc(elements, 4, Name::kLogitsGrad);
  Var elsewhere = g.alloc(tokens, 1, Name::kTokens);
  Var own = g.alloc(tokens, 8, Name::kTokens);
  Var values = g.alloc(tokens, 4, Name::kTokens);
  Var places = g.alloc(tokens, 8, Name::kTokens);
  Var scales = g.alloc(tokens, 4, Name::kTokens);
  g.reads(elements * 4);
  Var probabilities = g.alloc(elements, 4, Name::kLogitsGrad);
  g.reads(elements * 8);
  Var sum = g.alloc(elements, 4, Name::kLogitsGrad);
  probabilities.reset();
  g.reads(elements * 4);
  result[0] = g.alloc(elements, 4, Name::kLogitsGrad);
  sum.reset();
  scales.reset();
  targets.reset();
  marked.reset();
}

// The gradient that comes is that of the logits already.
void passed_backward(Graph&, Node& node, Grads& result) { result[0] = node.grads[0]; }

}  // namespace

Var all_gather(Graph& g, const Var& x, std::int64_t ranks, std::int64_t sequences) {
  const std::int32_t node = g.node(gather_backward, x);
  if (node >= 0) g.at(node).n[0] = x.elements;
  Var y = gathered(g, x.elements * ranks, x.width, sequences > 1, Name::kGatheredHidden);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var reduce_scatter(Graph& g, const Var& x, std::int64_t ranks, std::int64_t sequences) {
  const std::int32_t node = g.node(scatter_backward, x);
  if (node >= 0) {
    g.at(node).n[0] = x.elements;
    g.at(node).w[0] = sequences > 1 ? 1 : 0;
  }
  const Var message = laid_out(g, x);
  Var y = g.reuse_result(false);
  if (!y) y = g.alloc(x.elements / ranks, x.width, Name::kHidden);
  g.keep_result(y, false);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var split_cross_entropy(Graph& g, const Var& logits, const Var& labels, std::int64_t tokens) {
  const std::int32_t softmax = g.node(passed_backward, logits);
  Var most = g.alloc(tokens, 4, Name::kTokens);
  g.reads(logits.bytes());
  Var shifted = g.alloc(logits.elements, 4, Name::kLogitsFp32);
  {
    g.reads(logits.bytes());
    const Var exponentials = g.alloc(logits.elements, 4, Name::kLogitsFp32);
  }
  Var sums = g.alloc(tokens, 4, Name::kTokens);
  g.reads(logits.bytes());
  Var probabilities = g.alloc(logits.elements, 4, Name::kLogitsFp32);
  if (softmax >= 0) g.produced(probabilities, softmax);
  shifted.reset();
  most.reset();
  sums.reset();
  const std::int32_t node = g.node(split_loss_backward, probabilities);
  if (node >= 0) g.at(node).n = {logits.elements, tokens};
  g.save(node, probabilities);
  g.save(node, labels);
  Var loss = g.alloc(1, 4, Name::kTokens);
  Var total = g.alloc(1, 4, Name::kTokens);
  g.save(softmax, probabilities);
  g.save(node, total);
  if (node >= 0) g.produced(loss, node);
  return loss;
}

}  // namespace plimsoll::step::transformers
