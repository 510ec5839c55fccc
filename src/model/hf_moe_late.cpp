// SPDX-License-Identifier: Apache-2.0
// Later mixtures of experts with ordinary attention. Their routers differ in what they score with (families.cpp of the
// step); here is what their files say.
#include <string>

#include "model/hf_family.h"
#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Architecture read_dots1(Fields& in) {
  Draft draft = start(in, {.kv_heads = 32});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  return stack_routed(in, std::move(draft));
}

// Layers from moe_layer_start_index to moe_layer_end_index (-1: the last) are mixtures, every moe_layer_interval-th.
Architecture read_ernie_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = 4, .tied = true});
  set_attention_bias(draft.layer, in.flag("use_bias", false));
  draft.layer.ffn.bias = in.flag("use_bias", false);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  const std::int64_t width = in.size("moe_intermediate_size", limits::kWidth);
  FeedForward mixture = draft.layer.ffn;
  set_experts(mixture, in.size("moe_num_experts|num_experts", limits::kExperts),
              in.size("moe_k|num_experts_per_tok", limits::kExperts), width);
  mixture.shared_width = width * in.size_or("moe_num_shared_experts", limits::kExperts, 2, 0);
  const std::int64_t first = in.size_or("moe_layer_start_index", limits::kDepth, 1, 0);
  const std::int64_t last = in.size_or("moe_layer_end_index", limits::kDepth, -1, -1);
  const std::int64_t interval = in.size_or("moe_layer_interval", limits::kDepth, 1);
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if ((i + 1) % interval == 0 && i >= first && (last < 0 || i <= last)) layer.ffn = mixture;
  });
}

// Granite's experts beside one packed MLP.
Architecture read_granite_shared(Fields& in) {
  Draft draft = start(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  FeedForward& ffn = draft.layer.ffn;
  set_experts(ffn, in.size("num_local_experts", limits::kExperts), in.size("num_experts_per_tok", limits::kExperts),
              in.size("intermediate_size", limits::kWidth));
  ffn.shared_width = in.size_or("shared_intermediate_size", limits::kWidth, 0, 0);
  ffn.fused_gate_up = ffn.shared_width > 0;
  return stack(std::move(draft));
}

// Experts and a shared one of the same width; a list of numbers for every layer is not told apart.
Architecture read_hunyuan_moe(Fields& in) {
  Draft draft = start(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  for (const char* key : {"moe_topk", "num_experts", "moe_intermediate_size"})
    if (in.is_list(key)) in.fail(std::string(key) + " is a list; wanted one number for all layers");
  const std::int64_t width = in.size("intermediate_size", limits::kWidth);
  set_experts(draft.layer.ffn, in.size("num_experts", limits::kExperts), in.size("moe_topk", limits::kExperts), width);
  draft.layer.ffn.shared_width = width;
  return stack(std::move(draft));
}

// Layers with a window rotate; with windows at all, the others do not.
Architecture read_exaone_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = 32});
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  const bool windows = !in.is_null("sliding_window");
  const std::int64_t window = windows ? in.size_or("sliding_window", limits::kPositions, 4096) : 0;
  const std::int64_t period = in.size_or("sliding_window_pattern", limits::kDepth, 4);
  const LayerRule full = full_attention_layers(in, draft.depth, "sliding_attention",
                                               [=](std::int64_t i) { return !windows || (i + 1) % period == 0; });
  const std::int64_t dense = in.size_or("first_k_dense_replace", limits::kDepth, 1, 0);
  const LayerRule is_moe = moe_layers(in, draft.depth, [=](std::int64_t i) { return i >= dense; });
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  const std::int64_t width = in.size("moe_intermediate_size", limits::kWidth);
  FeedForward mixture = draft.layer.ffn;
  set_experts(mixture, in.size("num_experts", limits::kExperts), in.size("num_experts_per_tok", limits::kExperts),
              width);
  mixture.shared_width = width * in.size_or("num_shared_experts", limits::kExperts, 1, 0);
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
    layer.attention.rotates = !windows || !full(i);
    if (is_moe(i)) layer.ffn = mixture;
  });
}

// OLMo 2's attention and norms around OLMoE's experts.
Architecture read_flex_olmo(Fields& in) {
  Draft draft = start(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kFull;
  draft.model.post_norm_only = true;
  set_experts(draft.layer.ffn, in.size("num_experts", limits::kExperts),
              in.size("num_experts_per_tok", limits::kExperts), in.size("intermediate_size", limits::kWidth));
  return stack(std::move(draft));
}

constexpr Family kHfMoeLateFamilies[] = {
    {"dots1", read_dots1},
    {"ernie4_5_moe", read_ernie_moe},
    {"granitemoeshared", read_granite_shared},
    {"hunyuan_v1_moe", read_hunyuan_moe},
    {"exaone_moe", read_exaone_moe},
    {"flex_olmo", read_flex_olmo},
};

}  // namespace

std::span<const Family> late_moe_families() { return kHfMoeLateFamilies; }

}  // namespace plimsoll::model
