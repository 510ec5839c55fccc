// SPDX-License-Identifier: Apache-2.0
#include "model/parts.h"

namespace plimsoll::model {

namespace {

// Both norms, the projections of a row of twice the width, and the MLP.
std::int64_t block_parameters(std::int64_t hidden, const SharedBlock& block) {
  const Attention& a = block.attention;
  const std::int64_t query = a.heads * a.head_dim;
  const std::int64_t width = block.ffn.width;
  return 3 * hidden + 2 * hidden * (query + 2 * a.kv_heads * a.head_dim) + query * hidden + 3 * hidden * width +
         (block.ffn.bias ? 2 * width + hidden : 0);
}

// The product that leads from the block to the layer, and the layer's adapters.
std::int64_t joint_parameters(std::int64_t hidden, const SharedBlock& block) {
  const std::int64_t r = block.adapter_rank;
  const std::int64_t attention = block.adapts_attention ? 3 * 4 * hidden * r : 0;
  return hidden * hidden + hidden * r + r * 2 * block.ffn.width + attention;
}

// Norms of the router, of Laurel and of the layer's embedding; the scale; router, coefficients, Laurel and gates.
std::int64_t stream_parameters(std::int64_t hidden, const Streams& s) {
  const std::int64_t n = s.count;
  return 4 * hidden + hidden * n + n * n + n * n * n + 2 * hidden * s.laurel_rank + 2 * hidden * s.per_layer_width;
}

}  // namespace

std::int64_t shared_parameters(const Architecture& model) {
  std::int64_t sum = 0;
  if (model.shared_block != nullptr)
    sum += model.shared_block->count * block_parameters(model.hidden, *model.shared_block);
  if (model.streams != nullptr) {
    const Streams& s = *model.streams;
    const std::int64_t all = model.depth() * s.per_layer_width;
    sum +=
        (s.per_layer_vocab + model.hidden) * all + s.per_layer_width + 2 * (s.count - 1) * model.hidden * model.hidden;
  }
  return sum;
}

std::int64_t part_parameters(const Architecture& model, const Layer& layer) {
  std::int64_t sum = 0;
  if (layer.shared_block > 0 && model.shared_block != nullptr)
    sum += joint_parameters(model.hidden, *model.shared_block);
  if (model.streams != nullptr) sum += stream_parameters(model.hidden, *model.streams);
  return sum;
}

}  // namespace plimsoll::model
