// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kSortFrom = 3072;   // more tokens than this are sorted by id first
constexpr std::int64_t kRowsPerPart = 10;  // tokens of one id summed by one thread block

// What CUB's one-sweep radix sort of 64-bit keys and values takes: both once more, 256 counters for each of 8 digits,
// and 256 for every tile of keys. Held by the histories of 4,096 and 262,144 keys (83,456 and 4,269,568 bytes).
constexpr std::int64_t kTile = 4608;
constexpr std::int64_t sort_scratch(std::int64_t keys) {
  return 16 * keys + 4 * 256 * ((keys + kTile - 1) / kTile) + 8 * 8 * 256 + kBlockUnit;
}

// n: tokens, hidden, vocabulary rows.
void embedding_backward(Graph& g, Node& node, Grads& result) {
  const std::int64_t tokens = node.n[0];
  const std::int64_t elements = node.n[2] * node.n[1];
  const std::uint8_t width = node.grads[0].width;
  if (tokens <= kSortFrom) {
    result[0] = g.alloc(elements, width, Name::kWeightGrad);
    return;
  }
  Var sorted = g.alloc(tokens, 8, Name::kGrad);
  Var origin = g.alloc(tokens, 8, Name::kGrad);
  {
    Var keys = g.alloc(tokens, 8, Name::kGrad);
    Var scratch = g.alloc(sort_scratch(tokens), 1, Name::kGrad);
    scratch.reset();
  }
  result[0] = g.alloc(elements, width, Name::kWeightGrad);
  const std::int64_t segments = std::min(tokens, node.n[2]);
  Var offsets = g.alloc(tokens, 8, Name::kGrad);
  g.tape().touch(8 * tokens, Name::kGrad);  // the other output of the search for segments
  Var parts_of = g.alloc(segments, 8, Name::kGrad);
  Var part_offsets = g.alloc(segments, 8, Name::kGrad);
  const std::int64_t parts = tokens / kRowsPerPart + segments;
  Var part_starts = g.alloc(parts, 8, Name::kGrad);
  Var partial = g.alloc(parts * node.n[1], 4, Name::kGrad);
  partial.reset();
  part_starts.reset();
  part_offsets.reset();
  parts_of.reset();
  offsets.reset();
  origin.reset();
  sorted.reset();
}

// index_copy: of the whole table's gradient the rows that were put in.
void put_rows_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.make(node.n[0], node.w[0], Name::kWeightGrad);
}

// A row of a vocabulary is longer than what a thread block holds. Forward reads it for the maximum, for the sum and for
// the result, backward the gradient twice and the result once; a little of it comes from the cache. Percent of the
// logits that are read, from profiles on an H200 with 50,304 to 151,936 entries (written: another hundred).
constexpr std::int64_t kReadForward = 265;   // 260 to 270
constexpr std::int64_t kReadBackward = 290;  // 280 to 305
std::int64_t percent(std::int64_t share, std::int64_t bytes) { return bytes / 100 * share; }

// n: elements; w: width of the input.
void log_softmax_backward(Graph& g, Node& node, Grads& result) {
  g.reads(percent(kReadBackward, node.n[0] * node.w[0]));
  result[0] = g.alloc(node.n[0], node.w[0], Name::kLogitsGrad);
}

// Zeros, and one number for each label among them.
void nll_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.make(node.n[0], node.w[0], Name::kLogitsGrad);
  g.runs_small(1);
}

Var log_softmax(Graph& g, const Var& logits) {
  const std::int32_t node = g.node(log_softmax_backward, logits);
  g.reads(percent(kReadForward, logits.bytes()));
  Var probabilities = g.alloc(logits.elements, logits.width, Name::kLogitsFp32);
  if (node >= 0) {
    g.at(node).n[0] = logits.elements;
    g.at(node).w[0] = logits.width;
    g.produced(probabilities, node);
  }
  g.save(node, probabilities);
  return probabilities;
}

// A sum spreads its gradient without a copy.
void spread_backward(Graph& g, Node& node, Grads& result) {
  result[0] = g.constant(node.n[0], 4);
  result[0].is_view = true;
}

}  // namespace

Var embedding(Graph& g, const Var& ids, std::int64_t tokens, std::int64_t hidden, std::int32_t weight) {
  return embedding(g, ids, tokens, hidden, g.use(weight), g.weight(weight).rows * g.weight(weight).grad_parts);
}

Var embedding(Graph& g, const Var& ids, std::int64_t tokens, std::int64_t hidden, const Var& table, std::int64_t rows) {
  const std::int32_t node = g.node(embedding_backward, table);
  if (node >= 0) g.at(node).n = {tokens, hidden, rows};
  g.save(node, ids);
  Var y = g.alloc(tokens * hidden, table.width, Name::kHidden);
  if (node >= 0) g.produced(y, node);
  return y;
}

Var with_trained_rows(Graph& g, std::int32_t table, std::int32_t rows) {
  const Weight& frozen = g.weight(table);
  const Var trained = cast(g, g.use(rows), frozen.width, Name::kCastWeight);
  const std::int32_t node = g.node(put_rows_backward, trained);
  if (node >= 0) {
    g.at(node).n[0] = trained.elements;
    g.at(node).w[0] = frozen.width;
  }
  g.reads(frozen.elements * frozen.width);
  Var whole = g.alloc(frozen.elements, frozen.width, Name::kCastWeight);
  if (node >= 0) g.produced(whole, node);
  return whole;
}

Var cross_entropy(Graph& g, const Var& logits, const Var& labels) {
  // The softmax keeps the dtype of the logits; autocast runs only the negative log-likelihood in fp32.
  Var probabilities = log_softmax(g, logits);
  if (g.autocast) probabilities = cast(g, probabilities, 4, Name::kLogitsFp32);

  const std::int32_t node = g.node(nll_backward, probabilities);
  if (node >= 0) {
    g.at(node).n[0] = logits.elements;
    g.at(node).w[0] = probabilities.width;
  }
  g.save(node, probabilities);
  g.save(node, labels);
  g.reads(labels.bytes());  // and one logarithm for each
  Var loss = g.alloc(1, 4, Name::kTokens);
  Var total = g.alloc(1, 4, Name::kTokens);
  g.save(node, total);
  if (node >= 0) g.produced(loss, node);
  return loss;
}

Var smoothed_cross_entropy(Graph& g, const Var& logits, std::int64_t rows, std::int64_t tokens) {
  const std::int64_t elements = logits.elements / tokens * rows;
  const Var part = slice(g, logits, elements, false);
  const Var shifted = copy(g, part, Name::kLogitsFp32);
  const Var labels = g.alloc(rows, 8, Name::kTokens);
  Var probabilities = log_softmax(g, shifted);
  const Var negated = neg(g, probabilities, Name::kLogitsFp32);
  probabilities.reset();
  const Var padding = g.alloc(rows, 1, Name::kTokens);
  const Var chosen_ids = g.alloc(rows, 8, Name::kTokens);

  const std::int32_t gathered = g.node(nll_backward, negated);
  if (gathered >= 0) {
    g.at(gathered).n[0] = elements;
    g.at(gathered).w[0] = negated.width;
  }
  g.save(gathered, chosen_ids);
  g.reads(chosen_ids.bytes());
  Var chosen = g.alloc(rows, 4, Name::kTokens);
  if (gathered >= 0) g.produced(chosen, gathered);
  const std::int32_t summed = g.node(spread_backward, negated);
  if (summed >= 0) g.at(summed).n[0] = elements;
  Var all = g.alloc(rows, 4, Name::kTokens);
  if (summed >= 0) g.produced(all, summed);
  return add(g, chosen, all, Name::kTokens);
}

}  // namespace plimsoll::step::transformers
