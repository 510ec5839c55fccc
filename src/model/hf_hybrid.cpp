// SPDX-License-Identifier: Apache-2.0
// MiniMax's lightning attention (read_minimax); Qwen3-Next and Qwen3.5: every full_attention_interval-th layer is full
// attention with an output gate, the others are gated delta nets (facts models.md, Qwen3-Next layers).
#include "model/hf_family.h"
#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_hybrid(Fields& in) {
  Draft draft = start(in, {.kv_heads = 2, .head_dim = 256});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  draft.layer.attention.output_gate = in.flag("attn_output_gate", true);
  draft.model.norm_in_fp32_to_the_end = true;
  return draft;
}

Architecture stack_hybrid(Fields& in, Draft draft, const ShapeFeedForward& feed_forward) {
  Attention linear;
  linear.kind = AttentionKind::kLinear;
  linear.linear_key_heads = in.size("linear_num_key_heads", limits::kHeads);
  linear.linear_key_dim = in.size("linear_key_head_dim", limits::kHeadDim);
  linear.linear_value_heads = in.size("linear_num_value_heads", limits::kHeads);
  linear.linear_value_dim = in.size("linear_value_head_dim", limits::kHeadDim);
  linear.linear_conv = in.size("linear_conv_kernel_dim", limits::kConv);
  const std::int64_t interval = in.size_or("full_attention_interval", limits::kDepth, 4);
  const LayerRule full = full_attention_layers(in, draft.depth, "linear_attention",
                                               [interval](std::int64_t i) { return (i + 1) % interval == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention = linear;
    feed_forward(i, layer.ffn);
  });
}

Architecture read_mixture(Fields& in) {
  Draft draft = start_hybrid(in);
  const ShapeFeedForward feed_forward = qwen_feed_forward(in, draft, SharedExpert::kGated);
  return stack_hybrid(in, std::move(draft), feed_forward);
}

Architecture read_dense(Fields& in) {
  Draft draft = start_hybrid(in);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  return stack_hybrid(in, std::move(draft), [](std::int64_t, FeedForward&) {});
}

// MiniMax: lightning attention, and softmax attention where layer_types says so (otherwise in every second layer from
// the first).
Architecture read_minimax(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8});
  set_experts(draft.layer.ffn, in.size("num_local_experts", limits::kExperts),
              in.size("num_experts_per_tok", limits::kExperts), in.size("intermediate_size", limits::kWidth));
  Attention lightning = draft.layer.attention;
  lightning.kind = AttentionKind::kLightning;
  lightning.kv_heads = lightning.heads;
  lightning.linear_block = in.size_or("block_size", limits::kPositions, 256);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "linear_attention", [](std::int64_t i) { return i % 2 == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention = lightning;
  });
}

constexpr Family kHfHybridFamilies[] = {{"minimax", read_minimax},
                                        {"qwen3_next", read_mixture},
                                        {"qwen3_5_moe_text", read_mixture},
                                        {"qwen3_5_text", read_dense}};

}  // namespace

std::span<const Family> hybrid_families() { return kHfHybridFamilies; }

}  // namespace plimsoll::model
