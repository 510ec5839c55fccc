// SPDX-License-Identifier: Apache-2.0
// The ends of encoders: token types and patches below the layers, heads of masked words and of classes above them.
#include "step/transformers/model.h"
#include "step/transformers/ops.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {

// A convolution whose kernel is its stride: one product over the values of each patch. The class token joins in
// front, and a position is added to each.
Var embed_patches(Graph& g, const Model& m, const Var& pixels) {
  const model::Architecture& a = m.architecture();
  Var x;
  {
    const Var patches =
        convolution(g, pixels, m.patches.w, m.patches.bias, m.batch * a.patches * a.hidden, patch_channels(a.patches));
    const Var first = expand_view(g, g.use(m.class_token), m.batch * a.hidden);
    x = cat(g, first, patches, Name::kHidden);
  }
  x.head_major = false;
  return add(g, x, g.use(m.positions), Name::kHidden);
}

// Frames through two convolutions, the second of which takes every other place; positions are not trained.
Var embed_speech(Graph& g, const Model& m, const Var& features, Var& held) {
  const model::Architecture& a = m.architecture();
  constexpr std::int64_t kStride = 2;
  const std::int64_t places = m.batch * a.source_positions * a.hidden;
  const Var input = cast(g, features, g.autocast ? std::uint8_t{2} : m.width, Name::kCastInput);
  Var x = convolution(g, input, m.convolutions[0].w, m.convolutions[0].bias, kStride * places, a.mel_bins);
  x = keeps_input(g, x, Name::kActivation);
  x = convolution(g, x, m.convolutions[1].w, m.convolutions[1].bias, places, a.hidden);
  x = keeps_input(g, x, Name::kActivation);
  x.head_major = true;  // places along the last dimension, and so through all sums of the encoder
  const Var ids = g.alloc(a.source_positions, 8, Name::kTokens);
  held = x;
  return add(g, x, embedding(g, ids, a.source_positions, a.hidden, m.positions), Name::kLayerInput);
}

// One row for each token of each sequence, although all are alike.
Var embed_types(Graph& g, const Model& m, const Var& words, std::vector<Var>& held) {
  const Var ids = g.alloc(m.sequence, 8, Name::kTokens);
  held.push_back(embedding(g, ids, m.tokens(), m.architecture().hidden, m.token_types));
  return add(g, words, held.back(), Name::kHidden);
}

Var masked_head(Graph& g, const Model& m, const Var& hidden) {
  Var x = project(g, m, hidden, m.transform, Name::kHidden);
  x = activate(g, m, m.architecture().kinds.front().ffn.activation, x);
  x = norm(g, m, x, m.tokens(), m.transform_norm, Name::kNormOutput);
  return linear(g, x, m.head.w, m.head.bias, Name::kLogits);
}

// Of the class token alone.
Var class_head(Graph& g, const Model& m, const Var& hidden) {
  const Var first = slice(g, hidden, m.batch * m.architecture().hidden, false);
  return linear(g, first, m.head.w, m.head.bias, Name::kLogits);
}

}  // namespace plimsoll::step::transformers
