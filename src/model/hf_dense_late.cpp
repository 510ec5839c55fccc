// SPDX-License-Identifier: Apache-2.0
// Later dense models of the llama kind: windows on listed layers, an activation with learned slopes (Apertus), and
// layers that are a short convolution instead of attention (LFM2).
#include <algorithm>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_gated(Fields& in, const Defaults& defaults) {
  Draft draft = start(in, defaults);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  return draft;
}

// Layers look through the window unless `full` says that they see everything.
Architecture stack_windowed(Fields& in, Draft draft, std::int64_t fallback, const LayerRule& rule) {
  const std::int64_t window =
      in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, fallback);
  const LayerRule full = full_attention_layers(in, draft.depth, "sliding_attention", rule);
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
  });
}

Architecture read_ministral(Fields& in) {
  const bool windowed = !in.is_null("sliding_window");
  return stack_windowed(in, start_gated(in, {.kv_heads = 8}), 4096, [windowed](std::int64_t) { return !windowed; });
}

// Every layer has the window, where the file has one.
Architecture read_ministral3(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 8, .head_dim = 128});
  draft.layer.attention.sliding_window = in.size_or("sliding_window", limits::kPositions, 0, 0);
  return stack(std::move(draft));
}

Architecture read_cwm(Fields& in) {
  return stack_windowed(in, start_gated(in, {.kv_heads = 8, .head_dim = 128}), 8192,
                        [](std::int64_t i) { return i % 4 == 0; });
}

// Gemma 2 without the norms after its blocks.
Architecture read_vaultgemma(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 4, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh"});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.model.norm_in_fp32_to_the_end = true;
  draft.layer.attention.softcap = !in.is_null("attn_logit_softcapping");
  draft.model.final_softcap = !in.is_null("final_logit_softcapping");
  return stack_windowed(in, std::move(draft), 4096, [](std::int64_t i) { return i % 2 == 1; });
}

Architecture read_apertus(Fields& in) {
  Draft draft = start_gated(in, {.activation = "xielu"});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  draft.layer.ffn.gated = false;
  return stack(std::move(draft));
}

// The width of LFM2's MLPs: two thirds of what the file says, times a factor, rounded up to a multiple.
std::int64_t lfm2_width(Fields& in) {
  std::int64_t width = in.size("intermediate_size|block_ff_dim", limits::kWidth);
  if (!in.flag("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  const double factor = in.positive_or("block_ffn_dim_multiplier", 64, 1);
  const std::int64_t multiple = in.size_or("block_multiple_of", limits::kWidth, 256);
  width = static_cast<std::int64_t>(factor * static_cast<double>(width));
  return (width + multiple - 1) / multiple * multiple;
}

Architecture stack_convolved(Fields& in, Draft draft, const ShapeFeedForward& feed_forward) {
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  Attention convolution;
  convolution.kind = AttentionKind::kConvolution;
  convolution.heads = draft.layer.attention.heads;
  convolution.kv_heads = draft.layer.attention.kv_heads;
  convolution.head_dim = draft.layer.attention.head_dim;
  convolution.linear_conv = in.size_or("conv_L_cache", limits::kConv, 3);
  convolution.qkv_bias = convolution.out_bias = in.flag("conv_bias", false);
  const auto listed = in.integers("full_attn_idxs", limits::kDepth);
  const LayerRule full = full_attention_layers(in, draft.depth, "conv", [&](std::int64_t i) {
    return !listed || std::find(listed->begin(), listed->end(), i) != listed->end();
  });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention = convolution;
    feed_forward(i, layer.ffn);
  });
}

Architecture read_lfm2(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8, .tied = true});
  draft.layer.ffn.width = lfm2_width(in);
  return stack_convolved(in, std::move(draft), [](std::int64_t, FeedForward&) {});
}

Architecture read_lfm2_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8, .tied = true});
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  FeedForward mixture = draft.layer.ffn;
  set_experts(mixture, in.size("num_experts", limits::kExperts), in.size("num_experts_per_tok", limits::kExperts),
              in.size("moe_intermediate_size", limits::kWidth));
  const std::int64_t dense = in.size_or("num_dense_layers", limits::kDepth, 2, 0);
  return stack_convolved(in, std::move(draft), [&](std::int64_t i, FeedForward& ffn) {
    if (i >= dense) ffn = mixture;
  });
}

constexpr Family kHfDenseLateFamilies[] = {
    {"ministral", read_ministral},   {"ministral3", read_ministral3}, {"cwm", read_cwm},
    {"vaultgemma", read_vaultgemma}, {"apertus", read_apertus},       {"lfm2", read_lfm2},
    {"lfm2_moe", read_lfm2_moe},
};

}  // namespace

std::span<const Family> late_dense_families() { return kHfDenseLateFamilies; }

}  // namespace plimsoll::model
