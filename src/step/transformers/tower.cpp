// SPDX-License-Identifier: Apache-2.0
// A vision tower, its projector, and the place where their features enter the text, in the order of Transformers' code
// (facts other-frameworks-memory.md 2.11).
#include <algorithm>

#include "model/vision.h"
#include "step/transformers/model.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {

namespace {

using model::Projector;
using model::TowerKind;
using model::Vision;

bool is_qwen(const Vision& v) {
  return v.kind == TowerKind::kQwen2Vl || v.kind == TowerKind::kQwen25Vl || v.kind == TowerKind::kQwen3Vl;
}

// Patches as vectors: a convolution whose kernel is its stride.
Var embed(Graph& g, const Model& t, const Vision& v, const Var& pixels) {
  g.tape().at(Operation::kEmbedding);
  Var x;
  {
    const Var input = cast(g, pixels, g.autocast ? std::uint8_t{2} : t.width, Name::kCastInput);
    if (v.kind == TowerKind::kLlama4) {  // patches are cut out as columns first
      x = linear(g, copy(g, pixels, Name::kHidden), t.patches.w, t.patches.bias, Name::kHidden);
    } else if (is_qwen(v)) {
      x = linear(g, input, t.patches.w, t.patches.bias, Name::kHidden);
    } else {
      const std::int64_t patches = pixels.elements / t.architecture().patch_values;
      const std::int64_t of_an_image = patches / std::max<std::int64_t>(1, t.batch);
      x = convolution(g, input, t.patches.w, t.patches.bias, patches * v.tower.hidden, patch_channels(of_an_image));
    }
  }
  Var patches;  // named until the embeddings are whole
  if (v.class_token) {
    const Var first = expand_view(g, g.use(t.class_token), t.batch * v.tower.hidden);
    patches = std::move(x);
    x = cat(g, first, patches, Name::kHidden);
    x.head_major = false;
  }
  if (v.kind == TowerKind::kPixtral) return copy(g, x, Name::kHidden);  // images behind one another
  if (v.kind == TowerKind::kInternVl || v.kind == TowerKind::kLlama4)
    return add(g, x, g.use(t.positions), Name::kHidden);
  if (v.kind == TowerKind::kQwen3Vl) {  // four neighbours in the table, weighted and summed
    constexpr std::int64_t kNeighbours = 4;
    const std::int64_t patches = t.tokens();
    const Var places = g.alloc(kNeighbours * patches, 8, Name::kTokens);
    const Var shares = g.alloc(kNeighbours * patches, 4, Name::kTokens);
    Var rows = embedding(g, places, kNeighbours * patches, v.tower.hidden, t.positions);
    rows = mul(g, rows, shares, Name::kHidden);
    rows = sum_copies(g, rows, patches * v.tower.hidden, Name::kHidden);
    return add(g, x, cast(g, rows, x.width, Name::kHidden), Name::kHidden);
  }
  if (t.positions < 0) return x;
  const Var places = g.constant(t.sequence, 8);
  x = add(g, x, embedding(g, places, t.sequence, v.tower.hidden, t.positions), Name::kHidden);
  return x;
}

// InternVL multiplies each block's output by a weight per channel.
Var scaled_layer(Graph& g, const Model& t, std::int64_t i, const std::array<std::int32_t, 2>& scales, const Var& x) {
  const model::Layer& spec = t.architecture().layer(i);
  const LayerIds& ids = t.layers[static_cast<std::size_t>(i)];
  g.tape().at(Operation::kNorm1);
  Var hidden = norm(g, t, x, t.tokens(), ids.norm[0], Name::kNormOutput);
  hidden = attention(g, t, spec, ids, {}, hidden);
  hidden = mul(g, g.use(scales[0]), hidden, Name::kHidden);
  const Var residual = add(g, hidden, x, Name::kNormInput);
  g.tape().at(Operation::kNorm2);
  hidden = norm(g, t, residual, t.tokens(), ids.norm[1], Name::kNormOutput);
  hidden = mlp(g, t, spec.ffn, ids, hidden);
  hidden = dropout(g, hidden, t.architecture().hidden_dropout, Name::kHidden);
  hidden = mul(g, g.use(scales[1]), hidden, Name::kHidden);
  return add(g, hidden, residual, Name::kLayerInput);
}

// One product for queries, keys and values; they turn in fp32; chunks attend apart and are joined again.
Var qwen_attention(Graph& g, const Model& t, const model::Attention& a, const LayerIds& ids, std::int64_t chunk,
                   const Shared& shared, const Var& x) {
  const std::int64_t tokens = t.tokens();
  const std::int64_t part = tokens * a.heads * a.head_dim;
  g.tape().at(Operation::kQkvLinear);
  Var q, k, v;
  {
    Var packed = to_heads(g, project(g, t, x, ids.qkv, Name::kQkv));
    auto parts = split(g, packed, {part, part, part}, true);
    q = parts[0];
    k = parts[1];
    v = parts[2];
  }
  g.tape().at(Operation::kRotary);
  (void)rotate(g, t, shared, a.head_dim, q, k);
  g.tape().at(Operation::kCoreAttention);
  for (Var* each : {&q, &k, &v}) *each = split(g, *each, {part, 0, 0}, false)[0];
  const AttentionShape shape{tokens / chunk, chunk, a.heads, a.heads, a.head_dim, a.head_dim, 1};
  Var output = fused_attention(g, shape, q, k, v, {});
  output = copy(g, output, Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, t, output, ids.o, Name::kHidden);
}

Var qwen_layer(Graph& g, const Model& t, std::int64_t i, std::int64_t chunk, const Shared& shared, const Var& x) {
  const model::Layer& spec = t.architecture().layer(i);
  const LayerIds& ids = t.layers[static_cast<std::size_t>(i)];
  g.tape().at(Operation::kNorm1);
  Var hidden = norm(g, t, x, t.tokens(), ids.norm[0], Name::kNormOutput);
  hidden = qwen_attention(g, t, spec.attention, ids, chunk, shared, hidden);
  const Var residual = add(g, x, hidden, Name::kNormInput);
  g.tape().at(Operation::kNorm2);
  hidden = norm(g, t, residual, t.tokens(), ids.norm[1], Name::kNormOutput);
  return add(g, residual, mlp(g, t, spec.ffn, ids, hidden), Name::kLayerInput);
}

// Angles of every patch in fp32.
void qwen_tables(Graph& g, const Model& t, Shared& shared) {
  const std::int64_t n = t.tokens() * t.architecture().kinds.front().attention.head_dim;
  const Var angles = g.alloc(n / 2, 4, Name::kRopeTemp);
  const Var both = g.alloc(n, 4, Name::kRopeTemp);
  shared.cos = g.alloc(n, 4, Name::kRope);
  shared.sin = g.alloc(n, 4, Name::kRope);
}

// Tables in the dtype of the hidden states, and a mask that keeps images apart.
void pixtral_tables(Graph& g, const Model& t, std::uint8_t width, Shared& shared) {
  const std::int64_t n = t.tokens() * t.architecture().kinds.front().attention.head_dim;
  for (Var* table : {&shared.cos, &shared.sin}) {
    const Var wide = g.alloc(n, 4, Name::kRopeTemp);
    *table = cast(g, wide, width, Name::kRope);
  }
  shared.full_mask = g.alloc(t.tokens() * t.tokens(), width, Name::kMask);
}

// Patches that attend together in a layer.
std::int64_t chunk_of(const Model& m, const Vision& v, std::int64_t layer) {
  const bool whole = std::find(v.whole_layers.begin(), v.whole_layers.end(), layer) != v.whole_layers.end();
  if (v.window == 0 || whole) return m.tower.chunk;
  const std::int64_t side = v.window / v.patch_size;
  return std::clamp<std::int64_t>(side * side, 1, m.tower.chunk);
}

Var qwen_merger(Graph& g, const Model& t, const ProjectorIds& ids, const Vision& v, const Var& x, bool after_merge) {
  const std::int64_t rows = after_merge ? t.tokens() / (v.merge * v.merge) : t.tokens();
  Var hidden = norm(g, t, x, rows, ids.norm, Name::kNormOutput);
  hidden = project(g, t, hidden, ids.first, Name::kHidden);
  hidden = activate(g, t, model::Activation::kGelu, hidden);
  return project(g, t, hidden, ids.second, Name::kHidden);
}

// merge x merge neighbours side by side: two copies in turn.
Var shuffle(Graph& g, const Var& x) { return copy(g, copy(g, x, Name::kHidden), Name::kHidden); }

Var drop_class_token(Graph& g, const Model& t, const Vision& v, const Var& x) {
  if (!v.drops_class_token) return x;
  const Var rest = slice(g, x, t.batch * (t.sequence - 1) * v.tower.hidden, false);
  // A product wants its rows one after the other, as a conversion for it leaves them.
  return g.autocast && rest.width == 4 ? rest : copy(g, rest, Name::kHidden);
}

Var connect(Graph& g, const Model& m, const Vision& v, const Var& x) {
  const Model& t = *m.tower.layers;
  const ProjectorIds& ids = m.tower.projector;
  switch (v.projector) {
    case Projector::kMlp: {
      Var hidden = project(g, t, drop_class_token(g, t, v, x), ids.first, Name::kHidden);
      hidden = activate(g, t, v.projector_activation, hidden);
      hidden = project(g, t, hidden, ids.second, Name::kHidden);
      return copy(g, hidden, Name::kHidden);  // images one by one, joined again
    }
    case Projector::kLinear:
      return project(g, t, drop_class_token(g, t, v, x), ids.first, Name::kHidden);
    case Projector::kUnfolded: {
      Var hidden = norm(g, t, x, t.tokens(), ids.norm, Name::kNormOutput);
      hidden = copy(g, copy(g, hidden, Name::kHidden), Name::kHidden);  // unfolded, then images joined
      hidden = project(g, t, hidden, ids.merge, Name::kHidden);
      hidden = project(g, t, hidden, ids.first, Name::kHidden);
      hidden = activate(g, t, v.projector_activation, hidden);
      hidden = project(g, t, hidden, ids.second, Name::kHidden);
      return copy(g, hidden, Name::kHidden);
    }
    case Projector::kMerger: {
      const Var merged = qwen_merger(g, t, ids, v, x, false);
      return copy(g, merged, Name::kHidden);
    }
    case Projector::kShuffledMlp: {
      const Var rest = v.drops_class_token ? slice(g, x, t.batch * (t.sequence - 1) * v.tower.hidden, false) : x;
      const Var shuffled = shuffle(g, rest);
      const std::int64_t rows = shuffled.elements / (v.tower.hidden * v.merge * v.merge);
      Var hidden = layer_norm(g, shuffled, rows, ids.norm.w, ids.norm.bias, Name::kNormOutput);
      hidden = project(g, t, hidden, ids.first, Name::kHidden);
      hidden = activate(g, t, v.projector_activation, hidden);
      return project(g, t, hidden, ids.second, Name::kHidden);
    }
    case Projector::kShuffled:
      return project(g, t, shuffle(g, x), ids.first, Name::kHidden);
    case Projector::kAdapter: {
      Var hidden = shuffle(g, slice(g, x, t.batch * (t.sequence - 1) * v.tower.hidden, false));
      hidden = activate(g, t, model::Activation::kGelu, project(g, t, hidden, ids.merge, Name::kHidden));
      hidden = activate(g, t, model::Activation::kGelu, project(g, t, hidden, ids.first, Name::kHidden));
      return project(g, t, hidden, ids.second, Name::kHidden);
    }
    case Projector::kPooled: {
      const Var laid_out = copy(g, x, Name::kHidden);
      const std::int64_t rows = t.tokens() / (v.merge * v.merge);
      const Var pooled = average_pool(g, laid_out, rows * v.tower.hidden, Name::kHidden);
      const Var normed = norm(g, m, pooled, rows, ids.norm, Name::kNormOutput);
      return linear(g, normed, ids.first.w, -1, Name::kHidden);
    }
  }
  return x;
}

}  // namespace

Seen see(Graph& g, const Model& m, const Var& pixels, const RunLayer& run) {
  const Vision& v = *m.architecture().vision;
  const Model& t = *m.tower.layers;
  Seen seen;
  Shared shared;
  if (is_qwen(v)) qwen_tables(g, t, shared);
  Var x = embed(g, t, v, pixels);
  if (v.kind == TowerKind::kQwen25Vl)
    x = gather(g, x, g.alloc(t.tokens() / (v.merge * v.merge), 8, Name::kTokens), x.elements, Name::kHidden);
  if (v.tower.embedding_norm) x = norm(g, t, x, t.tokens(), t.embedding_norm, Name::kLayerInput);
  if (v.kind == TowerKind::kPixtral) pixtral_tables(g, t, x.width, shared);
  if (v.kind == TowerKind::kLlama4)  // a buffer of the model
    shared.cos = g.constant(t.sequence * v.tower.kinds.front().attention.head_dim, 4);
  const std::int64_t depth = v.tower.depth();
  std::vector<Var> outputs;  // where one of them is chosen, all of them live until features are made of it
  std::size_t unused_first = 0, unused_last = 0;
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto one = [&g, &m, &v, i, shared](const Var& input) {
      const Model& tower = *m.tower.layers;
      if (is_qwen(v)) return qwen_layer(g, tower, i, chunk_of(m, v, i), shared, input);
      if (v.kind == TowerKind::kInternVl)
        return scaled_layer(g, tower, i, m.tower.scales[static_cast<std::size_t>(i)], input);
      return layer(g, tower, i, shared, input);
    };
    if (v.skips_last_layer) outputs.push_back(x);
    if (v.skips_last_layer && i + 1 == depth) {  // it runs, and nobody takes its output
      unused_first = g.size();
      outputs.push_back(run(x, one));
      unused_last = g.size();
      break;
    }
    x = run(x, one);
    for (std::size_t d = 0; d < v.deepstack.size(); ++d)
      if (v.deepstack[d] == i) seen.deepstack.push_back(qwen_merger(g, t, m.tower.deepstack[d], v, x, true));
  }
  // LLaVA takes a layer's own output, the others what the tower's norm makes of the last.
  if (v.kind != TowerKind::kClip && v.tower.final_norm && v.projector != Projector::kMlp && !v.apart)
    x = norm(g, t, x, t.tokens(), t.final_norm, Name::kNormOutput);
  seen.features = connect(g, m, v, x);
  g.forget(unused_first, unused_last);
  for (auto output = outputs.rbegin(); output != outputs.rend(); ++output) output->reset();
  return seen;
}

Var place_images(Graph& g, const Model& m, const Var& embeds, const Var& features) {
  const Var mask = g.alloc(m.tokens(), 1, Name::kMask);
  const Var narrow = cast(g, features, embeds.width, Name::kHidden);
  return masked_scatter(g, embeds, narrow, mask, Name::kHidden);
}

// hidden.clone(); the rows of images, plus features; written back.
Var add_to_images(Graph& g, const Model& m, const Var& hidden, const Var& features) {
  const Var index = g.alloc(features.elements / m.architecture().hidden, 8, Name::kTokens);
  const Var whole = copy(g, hidden, Name::kHidden);
  const Var rows = gather(g, whole, index, features.elements, Name::kHidden);
  const Var sum = add(g, rows, features, Name::kHidden);
  return add_rows(g, whole, sum, index);
}

}  // namespace plimsoll::step::transformers
