// SPDX-License-Identifier: Apache-2.0
// The two ways in which files say which layers are mixtures and how wide their experts are, shared by
// families with different attention (facts models.md, MoE key names).
#pragma once

#include "model/hf_family.h"

namespace plimsoll::model {

enum class SharedExpert : std::uint8_t { kNone, kGated };

// Sets the FFN of one layer.
using ShapeFeedForward = std::function<void(std::int64_t depth, FeedForward& ffn)>;

// Qwen's keys: num_experts, moe_intermediate_size, shared_expert_intermediate_size, decoder_sparse_step,
// mlp_only_layers; dense layers have intermediate_size.
[[nodiscard]] ShapeFeedForward qwen_feed_forward(Fields& in, const Draft& draft, SharedExpert shared);
[[nodiscard]] Architecture stack_qwen_moe(Fields& in, Draft draft, SharedExpert shared);

// DeepSeek's and GLM's keys: n_routed_experts, n_shared_experts, moe_intermediate_size,
// first_k_dense_replace, moe_layer_freq; dense layers have intermediate_size.
[[nodiscard]] Architecture stack_routed(Fields& in, Draft draft);

}  // namespace plimsoll::model
