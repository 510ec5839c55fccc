// SPDX-License-Identifier: Apache-2.0
// Dense models of the llama kind: RMS norm, rotary positions, gated MLP (facts models.md, Families).
// They differ in biases, norms, defaults and which layers look through a sliding window.
#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_gated(Fields& in, const Defaults& defaults) {
  Draft draft = start(in, defaults);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  return draft;
}

// A window on every layer; 0 where the file has none.
void set_window(Fields& in, Draft& draft, std::int64_t fallback) {
  draft.layer.attention.sliding_window =
      in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, fallback);
}

// Qwen states a window but uses it only with use_sliding_window, from layer max_window_layers on.
Architecture stack_qwen(Fields& in, Draft draft) {
  const bool used = in.flag("use_sliding_window", false);
  const std::int64_t window =
      used && !in.is_null("sliding_window") ? in.size_or("sliding_window", limits::kPositions, 4096) : 0;
  const std::int64_t first = in.size_or("max_window_layers", limits::kDepth, 28, 0);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "sliding_attention", [first](std::int64_t i) { return i < first; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
  });
}

Architecture read_llama(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  return stack(std::move(draft));
}

Architecture read_mistral(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 8});
  set_window(in, draft, 4096);
  return stack(std::move(draft));
}

Architecture read_internlm2(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("bias", false));
  draft.layer.attention.fused_qkv = true;
  return stack(std::move(draft));
}

Architecture read_qwen2(Fields& in) {
  // Absent key/value heads mean the class default; null means as many as heads.
  Draft draft = start_gated(in, {.kv_heads = in.is_null("num_key_value_heads") ? 0 : 32});
  draft.layer.attention.qkv_bias = true;
  return stack_qwen(in, std::move(draft));
}

Architecture read_mimo(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 32});
  draft.layer.attention.qkv_bias = in.flag("attention_bias", true);
  return stack_qwen(in, std::move(draft));
}

Architecture read_qwen3(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 32, .head_dim = 128});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  return stack_qwen(in, std::move(draft));
}

Architecture read_olmo2(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kFull;
  draft.model.post_norm_only = true;
  return stack(std::move(draft));
}

// Every `period`-th layer sees everything, the others a window.
Architecture stack_windows(Fields& in, Draft draft, std::int64_t window, std::int64_t period, bool full_rotates) {
  const LayerRule full = full_attention_layers(
      in, draft.depth, "sliding_attention", [period](std::int64_t i) { return period > 0 && (i + 1) % period == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
    layer.attention.rotates = full_rotates || !full(i);
  });
}

// Norms without weights.
Architecture read_olmo(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.norms = 0;
  draft.model.norm = NormKind::kLayerNoBias;
  draft.model.final_norm = false;
  return stack(std::move(draft));
}

Architecture read_olmo3(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kFull;
  draft.model.post_norm_only = true;
  return stack_windows(in, std::move(draft), in.size_or("sliding_window", limits::kPositions, 4096), 4, true);
}

// Layers with a window rotate; with windows at all, the others do not.
Architecture read_exaone4(Fields& in) {
  Draft draft = start_gated(in, {});
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  draft.model.post_norm_only = true;
  const bool windows = !in.is_null("sliding_window");
  const std::int64_t window = windows ? in.size_or("sliding_window", limits::kPositions, 4096) : 0;
  const std::int64_t period = in.is_null("sliding_window_pattern") || in.is_list("sliding_window_pattern")
                                  ? 4
                                  : in.size_or("sliding_window_pattern", limits::kDepth, 4);
  return stack_windows(in, std::move(draft), window, period, !windows);
}

// Every fourth layer does not rotate, unless no_rope_layers lists them (1 means that it does).
Architecture read_smollm3(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 4, .tied = true});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  const std::int64_t interval = in.size_or("no_rope_layer_interval", limits::kDepth, 4);
  const std::optional<std::vector<std::int64_t>> listed = in.integers("no_rope_layers", 1);
  if (listed && static_cast<std::int64_t>(listed->size()) != draft.depth)
    in.fail("no_rope_layers has not one entry for each layer");
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    layer.attention.rotates = listed && in.ok() ? (*listed)[static_cast<std::size_t>(i)] != 0 : (i + 1) % interval != 0;
  });
}

Architecture read_seed_oss(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 8, .head_dim = 128});
  draft.layer.attention.qkv_bias = in.flag("attention_bias", true);
  draft.layer.attention.out_bias = in.flag("attention_out_bias", false);
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  draft.model.attention_dropout = in.probability("attention_dropout", 0.1);
  draft.model.hidden_dropout = in.probability("residual_dropout", 0.1);
  return stack(std::move(draft));
}

Architecture read_ernie(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 2, .head_dim = 128, .tied = true});
  set_attention_bias(draft.layer, in.flag("use_bias", false));
  draft.layer.ffn.bias = in.flag("use_bias", false);
  return stack(std::move(draft));
}

Architecture read_hunyuan(Fields& in) {
  Draft draft = start_gated(in, {});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  return stack(std::move(draft));
}

Architecture read_arcee(Fields& in) {
  Draft draft = start_gated(in, {.activation = "relu2"});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  draft.layer.ffn.gated = false;
  return stack(std::move(draft));
}

Architecture read_helium(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 20, .head_dim = 128});
  draft.layer.attention.qkv_bias = in.flag("attention_bias", false);
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  return stack(std::move(draft));
}

Architecture read_stablelm(Fields& in) {
  Draft draft = start_gated(in, {});
  draft.model.norm = NormKind::kLayer;
  draft.layer.attention.qkv_bias = in.flag("use_qkv_bias", false);
  draft.layer.parallel_block = in.flag("use_parallel_residual", false);
  draft.layer.norms = draft.layer.parallel_block ? 1 : 2;
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  if (in.flag("qk_layernorm", false))
    in.fail("qk_layernorm is true; norms of every single head are not modelled for StableLM");
  return stack(std::move(draft));
}

Architecture read_phi3(Fields& in) {
  Draft draft = start_gated(in, {});
  draft.layer.attention.fused_qkv = true;
  draft.layer.ffn.fused_gate_up = true;
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0);
  draft.model.embedding_dropout = in.probability("embd_pdrop", 0);
  set_window(in, draft, 0);
  return stack(std::move(draft));
}

// attention_bias means q, k and v only (facts models.md, trap 4).
Draft start_glm(Fields& in) {
  Draft draft = start_gated(in, {.kv_heads = 2, .head_dim = 128});
  draft.layer.attention.qkv_bias = in.flag("attention_bias", true);
  draft.layer.ffn.fused_gate_up = true;
  return draft;
}

Architecture read_glm(Fields& in) { return stack(start_glm(in)); }

Architecture read_glm4(Fields& in) {
  Draft draft = start_glm(in);
  draft.layer.norms = 4;
  return stack(std::move(draft));
}

Draft start_gemma(Fields& in, const Defaults& defaults) {
  Draft draft = start_gated(in, defaults);
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.model.norm_in_fp32_to_the_end = true;
  return draft;
}

Architecture read_gemma(Fields& in) {
  return stack(start_gemma(in, {.kv_heads = 16, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh"}));
}

// Sliding and full layers in turn, starting with a sliding one (facts models.md, trap 9). Both caps are
// on unless the file says null.
Architecture read_gemma2(Fields& in) {
  Draft draft = start_gemma(in, {.kv_heads = 4, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh"});
  draft.layer.norms = 4;
  draft.layer.attention.softcap = !in.is_null("attn_logit_softcapping");
  draft.model.final_softcap = !in.is_null("final_logit_softcapping");
  const std::int64_t window = in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, 4096);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "sliding_attention", [](std::int64_t i) { return i % 2 == 1; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
  });
}

// Five sliding layers, then a full one. Public multimodal files leave out heads and rows that equal the
// class defaults, 8 and 262208.
Architecture read_gemma3(Fields& in) {
  Draft draft = start_gemma(
      in,
      {.kv_heads = 4, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh", .heads = 8, .vocab = 262208});
  draft.layer.norms = 4;
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  draft.layer.attention.softcap = in.has("attn_logit_softcapping");
  draft.model.final_softcap = in.has("final_logit_softcapping");
  const std::int64_t window = in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, 4096);
  const std::int64_t period = in.size_or("sliding_window_pattern|_sliding_window_pattern", limits::kDepth, 6);
  const LayerRule full = full_attention_layers(in, draft.depth, "sliding_attention",
                                               [period](std::int64_t i) { return (i + 1) % period == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
  });
}

constexpr Family kHfDenseFamilies[] = {
    {"llama", read_llama},
    {"granite", read_llama},
    {"mistral", read_mistral},
    {"internlm2", read_internlm2},
    {"qwen2", read_qwen2},
    {"qwen2_vl_text", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"mimo", read_mimo},
    {"qwen3", read_qwen3},
    {"qwen3_vl_text", read_qwen3},
    {"olmo2", read_olmo2},
    {"phi3", read_phi3},
    {"glm", read_glm},
    {"glm4", read_glm4},
    {"gemma", read_gemma},
    {"gemma2", read_gemma2},
    {"gemma3_text", read_gemma3},
    {"olmo", read_olmo},
    {"olmo3", read_olmo3},
    {"exaone4", read_exaone4},
    {"smollm3", read_smollm3},
    {"seed_oss", read_seed_oss},
    {"ernie4_5", read_ernie},
    {"hunyuan_v1_dense", read_hunyuan},
    {"arcee", read_arcee},
    {"helium", read_helium},
    {"stablelm", read_stablelm},
};

}  // namespace

std::span<const Family> dense_families() { return kHfDenseFamilies; }

}  // namespace plimsoll::model
