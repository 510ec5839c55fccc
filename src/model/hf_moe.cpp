// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with ordinary attention (facts models.md, Families and MoE key names). In the
// Mixtral group intermediate_size is an expert's width; in the Qwen and GLM groups it belongs to the
// dense layers and moe_intermediate_size to the experts.
#include <algorithm>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

// num_local_experts experts of intermediate_size in every layer.
Draft start_mixture(Fields& in, const Defaults& defaults) {
  Draft draft = start(in, defaults);
  set_experts(draft.layer.ffn, in.size("num_local_experts", limits::kExperts),
              in.size("num_experts_per_tok|experts_per_token", limits::kExperts),
              in.size("intermediate_size", limits::kWidth));
  return draft;
}

Architecture read_mixtral(Fields& in) {
  Draft draft = start_mixture(in, {.kv_heads = 8});
  draft.layer.attention.sliding_window = in.size_or("sliding_window", limits::kPositions, 0);
  return stack(std::move(draft));
}

Architecture read_phimoe(Fields& in) {
  Draft draft = start_mixture(in, {.kv_heads = 8});
  draft.model.norm = NormKind::kLayer;
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.model.head_bias = in.flag("lm_head_bias", false);
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  draft.layer.attention.sliding_window = in.size_or("sliding_window", limits::kPositions, 0);
  return stack(std::move(draft));
}

Architecture read_granitemoe(Fields& in) {
  Draft draft = start_mixture(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  return stack(std::move(draft));
}

Architecture read_grok(Fields& in) {
  Draft draft = start_mixture(in, {.tied = true, .activation = "gelu"});
  draft.layer.norms = 4;
  return stack(std::move(draft));
}

// Sliding and full layers in turn, starting with a sliding one; a learned sink per head.
Architecture read_gpt_oss(Fields& in) {
  Draft draft = start_mixture(in, {.kv_heads = 8, .head_dim = 64});
  set_attention_bias(draft.layer, in.flag("attention_bias", true));
  draft.layer.attention.sinks = true;
  draft.layer.ffn.expert_bias = true;
  draft.layer.ffn.router_bias = true;
  const std::int64_t window = in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, 128);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "sliding_attention", [](std::int64_t i) { return i % 2 == 1; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
  });
}

Architecture read_minimax_m2(Fields& in) {
  Draft draft = start_mixture(in, {.kv_heads = 8, .head_dim = 128});
  if (in.flag("use_qk_norm", true)) {
    const std::string type = in.text("qk_norm_type", "per_layer");
    if (type != "per_layer" && type != "per_head")
      in.fail(fmt::format("qk_norm_type is '{}'; wanted per_layer or per_head", type.substr(0, 40)));
    draft.layer.attention.qk_norm = type == "per_head" ? QkNorm::kPerHead : QkNorm::kFull;
  }
  draft.layer.ffn.shared_width = in.size_or("shared_intermediate_size", limits::kWidth, 0, 0);
  return stack(std::move(draft));
}

Architecture read_dbrx(Fields& in) {
  Draft draft = start(in, {});
  Attention& attention = draft.layer.attention;
  draft.model.norm = NormKind::kLayerNoBias;
  attention.kv_heads = in.size_or("attn_config.kv_n_heads", limits::kHeads, 1);
  attention.fused_qkv = true;
  draft.layer.ffn.activation = activation(in, "ffn_config.ffn_act_fn.name", "silu");
  set_experts(draft.layer.ffn, in.size("ffn_config.moe_num_experts", limits::kExperts),
              in.size("ffn_config.moe_top_k", limits::kExperts), in.size("ffn_config.ffn_hidden_size", limits::kWidth));
  draft.model.attention_dropout = in.probability("attn_config.attn_pdrop", 0);
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0);
  draft.model.embedding_dropout = in.probability("emb_pdrop", 0);
  return stack(std::move(draft));
}

Architecture read_qwen2_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = in.is_null("num_key_value_heads") ? 0 : 16});
  draft.layer.attention.qkv_bias = in.flag("qkv_bias", true);
  return stack_qwen_moe(in, std::move(draft), SharedExpert::kGated);
}

Architecture read_olmoe(Fields& in) {
  Draft draft = start(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kFull;
  set_experts(draft.layer.ffn, in.size("num_experts|num_local_experts", limits::kExperts),
              in.size("num_experts_per_tok", limits::kExperts), in.size("intermediate_size", limits::kWidth));
  return stack(std::move(draft));
}

Architecture read_qwen3_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = 4});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  return stack_qwen_moe(in, std::move(draft), SharedExpert::kNone);
}

// Every interleave_moe_layer_step-th layer is a mixture, with a shared expert as wide as a routed one
// that no key announces. Three of four layers are rotary and see chunks of attention_chunk_size; their
// q/k norm has no weights.
Architecture read_llama4(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8, .head_dim = 128});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.width = in.size("intermediate_size_mlp", limits::kWidth);
  const std::int64_t width = in.size("intermediate_size", limits::kWidth);
  const std::int64_t experts = in.size("num_local_experts", limits::kExperts);
  const std::int64_t per_token = in.size("num_experts_per_tok", limits::kExperts);
  const std::int64_t step = in.size_or("interleave_moe_layer_step", limits::kDepth, 1);
  const std::optional<std::vector<std::int64_t>> listed = in.integers("moe_layers", limits::kDepth);
  const std::int64_t chunk = in.size_or("attention_chunk_size", limits::kPositions, 0);
  const bool qk_norm = in.flag("use_qk_norm", true);
  const std::int64_t interval = in.size_or("no_rope_layer_interval", limits::kDepth, 4);
  const LayerRule full = full_attention_layers(in, draft.depth, "chunked_attention",
                                               [interval](std::int64_t i) { return (i + 1) % interval == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    layer.attention.rotates = !full(i);
    if (!full(i)) {
      layer.attention.sliding_window = chunk;
      layer.attention.qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone;
      layer.attention.qk_norm_has_weight = false;
    }
    const bool is_moe = listed ? std::find(listed->begin(), listed->end(), i) != listed->end() : (i + 1) % step == 0;
    if (!is_moe) return;
    set_experts(layer.ffn, experts, per_token, width);
    layer.ffn.shared_width = width;
  });
}

Architecture read_glm4_moe(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8, .head_dim = 128});
  draft.layer.attention.qkv_bias = in.flag("attention_bias", false);
  if (in.flag("use_qk_norm", false)) draft.layer.attention.qk_norm = QkNorm::kPerHead;
  return stack_routed(in, std::move(draft));
}

constexpr Family kHfMoeFamilies[] = {
    {"mixtral", read_mixtral},    {"phimoe", read_phimoe},       {"granitemoe", read_granitemoe},
    {"grok-1", read_grok},        {"gpt_oss", read_gpt_oss},     {"minimax_m2", read_minimax_m2},
    {"dbrx", read_dbrx},          {"qwen2_moe", read_qwen2_moe}, {"qwen3_moe", read_qwen3_moe},
    {"llama4_text", read_llama4}, {"glm4_moe", read_glm4_moe},   {"olmoe", read_olmoe},
};

}  // namespace

std::span<const Family> moe_families() { return kHfMoeFamilies; }

}  // namespace plimsoll::model
