// SPDX-License-Identifier: Apache-2.0
// Parameter counts of an unsplit model (facts: models.md). MTP layers are counted apart.
// The model must have passed validate(): its bounds keep every count inside int64.
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace plimsoll::model {

struct Parameters {
  std::int64_t total = 0;   // without MTP; a tied embedding once
  std::int64_t active = 0;  // total less the routed experts that a token does not visit
  std::int64_t mtp = 0;     // unique weights of the MTP layers
};

[[nodiscard]] std::int64_t attention_parameters(const Architecture& model, const Attention& attention);
// One routed expert; 0 in a dense layer.
[[nodiscard]] std::int64_t expert_parameters(const Architecture& model, const FeedForward& ffn);
// Dense MLP, or router, all routed experts and shared experts.
[[nodiscard]] std::int64_t feed_forward_parameters(const Architecture& model, const FeedForward& ffn);
// One norm over `width` channels: weight, and bias where the class has one.
[[nodiscard]] std::int64_t norm_parameters(const Architecture& model, std::int64_t width);
[[nodiscard]] std::int64_t layer_parameters(const Architecture& model, const Layer& layer);
// One matrix of the vocabulary: the input embedding, or the output head without its bias.
[[nodiscard]] std::int64_t embedding_parameters(const Architecture& model);
[[nodiscard]] Parameters count_parameters(const Architecture& model);

}  // namespace plimsoll::model
