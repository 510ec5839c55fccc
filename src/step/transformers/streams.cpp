// SPDX-License-Identifier: Apache-2.0
// Gemma 3n (facts other-frameworks-memory.md 2.13): a layer computes one of several residual streams and predicts and
// corrects the others (AltUp), adds a low-rank branch to its attention (Laurel) and lets an embedding of its own gate
// the result. Under autocast powers are fp32, and so are the streams that they scale.
#include <algorithm>

#include "model/parts.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

Var first_stream(Graph& g, const Model& m, const Var& x) {
  return slice(g, x, x.elements / m.architecture().streams->count, false);
}

// How much of each stream: a few numbers per token.
Var route(Graph& g, const Model& m, const StreamIds& ids, const Var& x) {
  const Var input = scale(g, norm(g, m, x, m.tokens(), ids.router_norm, Name::kNormOutput), Name::kRouter);
  const Var routed = project(g, m, input, ids.router, Name::kRouter);
  const Var bent = keeps_result(g, cast(g, routed, 4, Name::kRouter), Name::kRouter);
  return cast(g, bent, x.width, Name::kRouter);
}

// A matrix per token mixes the streams, which stay where they are: the product's result is added to in place through
// a view, and then laid out.
Var predict(Graph& g, const Model& m, const StreamIds& ids, const Var& x) {
  const std::int64_t n = m.architecture().streams->count;
  const Var shares = route(g, m, ids, first_stream(g, m, x));
  Var matrix = project(g, m, shares, ids.prediction, Name::kRouter);
  Var streams = x;
  matrix.head_major = streams.head_major = true;
  Var mixed = batched_matmul(g, streams, matrix, {m.tokens(), m.architecture().hidden, n, n}, Name::kHidden);
  mixed = add_in_view(g, mixed, x, mixed.elements);
  const Var laid_out = copy(g, mixed, Name::kHidden);
  mixed.reset();
  return cast(g, laid_out, x.width, Name::kHidden);
}

// What the layer did to its stream, in a share for every stream.
Var correct(Graph& g, const Model& m, const StreamIds& ids, const Var& predictions, const Var& activated) {
  const Var shares = route(g, m, ids, activated);
  Var innovation = subtract(g, activated, first_stream(g, m, predictions), Name::kHidden);
  innovation = repeat(g, innovation, m.architecture().streams->count, Name::kHidden);
  const Var factors = add_number(g, project(g, m, shares, ids.correction, Name::kRouter), Name::kRouter);
  return add_bias(g, mul(g, innovation, factors, Name::kHidden), predictions);
}

Var laurel(Graph& g, const Model& m, const StreamIds& ids, const Var& x) {
  const Var down = project(g, m, x, ids.laurel_down, Name::kHidden);
  const Var up = project(g, m, down, ids.laurel_up, Name::kHidden);
  return add(g, x, norm(g, m, up, m.tokens(), ids.laurel_norm, Name::kNormOutput), Name::kHidden);
}

// Whether no layer above makes keys of the same kind for itself.
bool is_last_of_its_kind(const model::Architecture& a, std::int64_t index) {
  const auto window = a.layer(index).attention.sliding_window;
  for (std::int64_t i = index + 1; i < a.depth(); ++i) {
    const model::Attention& above = a.layer(i).attention;
    if (above.sliding_window == window && !above.shares_keys) return false;
  }
  return true;
}

// Queries and keys turn before they are seen by head; upper layers take keys and values from below.
Var keyed_attention(Graph& g, const Model& m, std::int64_t index, const LayerIds& ids, const Shared& shared,
                    const Var& x) {
  const model::Attention& a = m.architecture().layer(m.first_layer + index).attention;
  const bool local = a.sliding_window > 0;
  Shared tables;
  tables.cos = local ? shared.local_cos : shared.cos;
  tables.sin = local ? shared.local_sin : shared.sin;
  const auto by_head = [&](const Var& y, const NormIds& weights, Name name) {
    return norm(g, m, y, y.elements / a.head_dim, weights, name);
  };
  g.tape().at(Operation::kQkvLinear);
  Var q = by_head(project(g, m, x, ids.q, Name::kQuery), ids.q_norm, Name::kQuery);
  q = to_heads(g, turn(g, q, tables));
  std::array<Var, 2>& kept = shared.keys->of[local ? 1 : 0];
  Var k = kept[0];
  Var v = kept[1];
  if (!a.shares_keys) {
    k = by_head(project(g, m, x, ids.k, Name::kKey), ids.k_norm, Name::kKey);
    k = to_heads(g, turn(g, k, tables));
    v = to_heads(g, by_head(project(g, m, x, ids.v, Name::kValue), {}, Name::kValue));
    if (is_last_of_its_kind(m.architecture(), m.first_layer + index)) kept = {k, v};
  }
  const AttentionShape shape{m.batch, m.sequence, a.heads, a.kv_heads, a.head_dim, a.head_dim, 1};
  const Var output = attend(g, m, shape, a, -1, q, k, v, shared);
  g.tape().at(Operation::kProjection);
  return project(g, m, output, ids.o, Name::kHidden);
}

// The mean square of every token's row, and its root.
Var mean_square(Graph& g, const Model& m, const Var& x) {
  const Var wide = g.autocast ? cast(g, x, 4, Name::kNormFp32) : x;
  return mean_rows(g, pow(g, wide, Name::kHidden), m.tokens(), Name::kNormStats);
}

// A projected stream, scaled to the first one's magnitude.
Var like_first(Graph& g, const Model& m, const Var& projected, const Var& magnitude) {
  Var own = keeps_input(g, mean_square(g, m, projected), Name::kNormStats);  // at least an epsilon
  own = keeps_result(g, own, Name::kNormStats);
  return divide(g, mul(g, projected, magnitude, Name::kHidden), own, Name::kHidden);
}

// One tensor of all of them, in the widest of their dtypes.
Var stacked(Graph& g, const std::vector<Var>& pieces) {
  std::uint8_t width = 0;
  for (const Var& piece : pieces) width = std::max(width, piece.width);
  Var joined;
  std::vector<Var> converted;
  for (const Var& piece : pieces) converted.push_back(cast(g, piece, width, Name::kHidden));
  for (const Var& piece : converted) joined = append(g, joined, piece);
  return copy(g, joined, Name::kLayerInput);
}

}  // namespace

Var layer_inputs(Graph& g, const Model& m, const Var& ids, const Var& embeds) {
  const std::int64_t width = m.architecture().streams->per_layer_width;
  const std::int64_t columns = m.architecture().depth() * width;
  Var looked_up = embedding(g, ids, m.tokens(), columns, m.streams.table);
  looked_up = scale(g, looked_up, Name::kHidden);
  Var projected = project(g, m, embeds, m.streams.project, Name::kHidden);
  projected = norm(g, m, projected, projected.elements / width, m.streams.norm, Name::kHidden);
  const Var sum = add(g, projected, looked_up, Name::kHidden);
  return scale(g, sum, Name::kHidden);
}

Var widen(Graph& g, const Model& m, const Var& embeds, std::vector<Var>& pieces) {
  const Var magnitude = pow(g, mean_square(g, m, embeds), Name::kNormStats);
  pieces = {embeds};
  for (const LinearIds& ids : m.streams.widen)
    pieces.push_back(like_first(g, m, project(g, m, embeds, ids, Name::kHidden), magnitude));
  return stacked(g, pieces);
}

Var narrow(Graph& g, const Model& m, const Var& x) {
  const Var magnitude = pow(g, mean_square(g, m, first_stream(g, m, x)), Name::kNormStats);
  std::vector<Var> pieces{first_stream(g, m, x)};
  for (const LinearIds& ids : m.streams.narrow)
    pieces.push_back(like_first(g, m, project(g, m, first_stream(g, m, x), ids, Name::kHidden), magnitude));
  const Var all = stacked(g, pieces);
  return mean_rows(g, all, pieces.front().elements, Name::kHidden);
}

Var stream_layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x) {
  const model::Layer& spec = m.architecture().layer(m.first_layer + index);
  const LayerIds& ids = m.layers[static_cast<std::size_t>(index)];
  const StreamIds& own = ids.streams;
  const model::Streams& s = *m.architecture().streams;
  const std::int64_t tokens = m.tokens();
  const Var embedded = slice(g, shared.per_layer, tokens * s.per_layer_width, false);
  g.tape().at(Operation::kNorm1);
  const Var predictions = predict(g, m, own, x);
  const Var active = first_stream(g, m, predictions);
  const Var input = norm(g, m, active, tokens, ids.norm[0], Name::kNormOutput);
  const Var branch = laurel(g, m, own, input);
  Var attended = keyed_attention(g, m, index, ids, shared, input);
  attended = norm(g, m, attended, tokens, ids.norm[1], Name::kNormOutput);
  const Var gated = add(g, active, attended, Name::kNormInput);
  const Var joined = scale(g, add(g, gated, branch, Name::kHidden), Name::kNormInput);
  g.tape().at(Operation::kNorm2);
  const Var before = norm(g, m, joined, tokens, ids.norm[2], Name::kNormOutput);
  const Var fed = mlp(g, m, spec.ffn, ids, before);
  const Var after = norm(g, m, fed, tokens, ids.norm[3], Name::kNormOutput);
  const Var activated = add(g, joined, after, Name::kHidden);
  Var corrected = correct(g, m, own, predictions, activated);
  Var first = copy(g, first_stream(g, m, corrected), Name::kHidden);
  if (s.scales_output) {
    const Var factors = g.use(own.scale);
    const std::uint8_t width = first.width;
    first = cast(g, mul(g, cast(g, first, factors.width, Name::kHidden), factors, Name::kHidden), width, Name::kHidden);
  }
  first = project(g, m, first, own.gate, Name::kHidden);
  first = mul(g, activate(g, m, spec.ffn.activation, first), embedded, Name::kActivation);
  first = project(g, m, first, own.up, Name::kHidden);
  first = norm(g, m, first, tokens, own.layer_norm, Name::kNormOutput);
  // x[1:] += y is an addition into a view, and an assignment of that view to itself.
  const std::int64_t others = corrected.elements / s.count * (s.count - 1);
  corrected = add_in_view(g, corrected, first, others);
  return assign_view(g, corrected, slice(g, corrected, others, false));
}

void stand_in(Graph& g, const Model& m, Shared& shared) {
  const model::Architecture& a = m.architecture();
  if (a.shared_block != nullptr) shared.embeds = g.constant(m.tokens() * a.hidden, m.width);
  if (a.streams == nullptr) return;
  shared.per_layer = g.constant(m.tokens() * a.depth() * a.streams->per_layer_width, m.autocast ? 2 : m.width);
  shared.local_cos = shared.cos;
  shared.local_sin = shared.sin;
  shared.keys = std::make_shared<KeptKeys>();
  const model::Attention& attention = a.kinds.front().attention;
  const std::int64_t elements = m.tokens() * attention.kv_heads * attention.head_dim;
  for (auto& kept : shared.keys->of)
    kept = {g.constant(elements, shared.cos.width), g.constant(elements, m.autocast ? 2 : m.width)};
}

Var largest(Graph& g, const Var& x, std::int64_t rows) {
  g.runs_small(6);  // the quantile of the share that passes
  const Var mean = mean_rows(g, x, rows, Name::kNormStats);
  const Var spread = deviation(g, x, rows, Name::kNormStats);
  const Var limit = add(g, mean, scale(g, spread, Name::kNormStats), Name::kNormStats);
  return keeps_result(g, subtract(g, x, limit, Name::kActivation), Name::kActivation);
}

}  // namespace plimsoll::step::transformers
