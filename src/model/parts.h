// SPDX-License-Identifier: Apache-2.0
// What a few models have beside a stack of layers: a block whose weights several layers use, and residual streams that
// run beside one another. Sizes only; what their code does with them is in step/transformers.
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace plimsoll::model {

// Attention and an MLP before the mixer of some layers, with the same weights in all of them (Zamba 2). It reads the
// residual stream and the embedding side by side, so its first norm and its projections are twice as wide.
struct SharedBlock {
  Attention attention;
  FeedForward ffn;                // one packed product, gate and up
  std::int64_t count = 1;         // blocks that take turns
  std::int64_t adapter_rank = 0;  // of what each layer adds of its own to the packed product
  bool adapts_attention = false;  // and to queries, keys and values
};

// Residual streams of which a layer computes one and predicts and corrects the others (AltUp), a low-rank branch beside
// attention (Laurel), and an embedding of every token for every layer (Gemma 3n).
struct Streams {
  std::int64_t count = 4;
  std::int64_t laurel_rank = 64;
  std::int64_t per_layer_width = 256;
  std::int64_t per_layer_vocab = 0;
  bool scales_output = true;  // the corrected stream, before the layer's own embedding gates it
};

// Weights of the model that no layer owns, and those that a layer has beside attention, MLP and norms.
[[nodiscard]] std::int64_t shared_parameters(const Architecture& model);
[[nodiscard]] std::int64_t part_parameters(const Architecture& model, const Layer& layer);

}  // namespace plimsoll::model
