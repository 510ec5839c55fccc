// SPDX-License-Identifier: Apache-2.0
// Dense models of the GPT kind: LayerNorm and, but for Command-R, an MLP without a gate (facts
// models.md, Families). Most have biases everywhere and one fused q,k,v projection.
#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_plain(Fields& in, const Defaults& defaults) {
  Draft draft = start(in, defaults);
  draft.model.norm = NormKind::kLayer;
  draft.layer.ffn.gated = false;
  return draft;
}

// Families without a key for key/value heads; one that a file states all the same is not read by them.
void use_full_heads(Draft& draft) { draft.layer.attention.kv_heads = draft.layer.attention.heads; }

void set_all_biases(Layer& layer, bool bias) {
  set_attention_bias(layer, bias);
  layer.ffn.bias = bias;
}

Architecture read_gpt2(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "gelu_new"});
  use_full_heads(draft);
  draft.layer.attention.fused_qkv = true;
  set_all_biases(draft.layer, true);
  draft.layer.ffn.width = in.size_or("n_inner", limits::kWidth, 4 * draft.model.hidden);
  draft.model.rope = false;
  draft.model.position_rows = in.size("n_positions|max_position_embeddings", limits::kPositionRows);
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0.1);
  draft.model.embedding_dropout = in.probability("embd_pdrop", 0.1);
  draft.model.attention_dropout = in.probability("attn_pdrop", 0.1);
  return stack(std::move(draft));
}

Architecture read_gpt_bigcode(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "gelu_pytorch_tanh"});
  use_full_heads(draft);
  if (in.flag("multi_query", true)) draft.layer.attention.kv_heads = 1;
  draft.layer.attention.fused_qkv = true;
  set_all_biases(draft.layer, true);
  draft.layer.ffn.width = in.size_or("n_inner", limits::kWidth, 4 * draft.model.hidden);
  draft.model.rope = false;
  draft.model.position_rows = in.size("n_positions|max_position_embeddings", limits::kPositionRows);
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0.1);
  draft.model.embedding_dropout = in.probability("embd_pdrop", 0.1);
  draft.model.attention_dropout = in.probability("attn_pdrop", 0.1);
  return stack(std::move(draft));
}

Architecture read_gptj(Fields& in) {
  Draft draft = start_plain(in, {.activation = "gelu_new"});
  use_full_heads(draft);
  draft.layer.ffn.bias = true;
  draft.layer.ffn.width = in.size_or("n_inner", limits::kWidth, 4 * draft.model.hidden);
  draft.layer.norms = 1;
  draft.layer.parallel_block = true;
  draft.model.head_bias = true;
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0);
  draft.model.embedding_dropout = in.probability("embd_pdrop", 0);
  draft.model.attention_dropout = in.probability("attn_pdrop", 0);
  return stack(std::move(draft));
}

// Biases by distance instead of positions; norms and projections without biases.
Architecture read_mpt(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "gelu"});
  use_full_heads(draft);
  draft.model.norm = NormKind::kLayerNoBias;
  draft.layer.attention.fused_qkv = true;
  draft.layer.ffn.width = in.size_or("expansion_ratio", 1 << 10, 4) * draft.model.hidden;
  draft.model.rope = false;
  draft.model.alibi = in.flag("attn_config.alibi", true);
  draft.model.hidden_dropout = draft.model.attention_dropout = in.probability("attn_config.attn_pdrop", 0);
  return stack(std::move(draft));
}

Architecture read_gpt_neox(Fields& in) {
  Draft draft = start_plain(in, {.activation = "gelu"});
  use_full_heads(draft);
  draft.layer.attention.fused_qkv = true;
  set_attention_bias(draft.layer, in.flag("attention_bias", true));
  draft.layer.ffn.bias = true;
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.layer.parallel_block = in.flag("use_parallel_residual", true);
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  draft.model.embedding_dropout = draft.model.hidden_dropout;  // one key for both in this class
  return stack(std::move(draft));
}

// The position table has two rows more than the key says; a narrow word embedding (350M) is projected
// up and down. With do_layer_norm_before = false the norms follow the blocks and there is no final one.
Architecture read_opt(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "relu"});
  use_full_heads(draft);
  set_all_biases(draft.layer, in.flag("enable_bias", true));
  draft.layer.ffn.width = in.size("ffn_dim", limits::kWidth);
  draft.model.rope = false;
  draft.model.position_rows = in.size("max_position_embeddings", limits::kPositionRows - 2) + 2;
  const std::int64_t embedding = in.size_or("word_embed_proj_dim", limits::kHidden, draft.model.hidden);
  draft.model.embedding_dim = embedding == draft.model.hidden ? 0 : embedding;
  draft.model.hidden_dropout = in.probability("dropout", 0.1);
  if (!in.flag("layer_norm_elementwise_affine", true))
    in.fail("layer_norm_elementwise_affine is false; norms without weights are not modelled for OPT");
  if (!in.flag("do_layer_norm_before", true)) {
    draft.model.post_norm_only = true;
    draft.model.final_norm = false;
  }
  return stack(std::move(draft));
}

Architecture read_bloom(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "gelu"});
  use_full_heads(draft);
  draft.layer.attention.fused_qkv = true;
  set_all_biases(draft.layer, true);
  draft.layer.ffn.width = 4 * draft.model.hidden;
  draft.layer.ffn.activation = Activation::kBloomGelu;
  draft.model.rope = false;
  draft.model.alibi = true;
  draft.model.embedding_norm = true;
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  return stack(std::move(draft));
}

// new_decoder_architecture: grouped heads and, unless num_ln_in_parallel_attn says 1, two norms. The
// older one has a single key/value head (multi_query) or full heads.
Architecture read_falcon(Fields& in) {
  Draft draft = start_plain(in, {.tied = true, .activation = "gelu"});
  use_full_heads(draft);
  Attention& attention = draft.layer.attention;
  attention.fused_qkv = true;
  const bool grouped = in.flag("new_decoder_architecture", false);
  if (grouped)
    attention.kv_heads = in.size_or("num_kv_heads|n_head_kv", limits::kHeads, attention.heads);
  else if (in.flag("multi_query", true))
    attention.kv_heads = 1;
  set_all_biases(draft.layer, in.flag("bias", false));
  draft.layer.ffn.width = in.size_or("ffn_hidden_size", limits::kWidth, 4 * draft.model.hidden);
  draft.layer.parallel_block = grouped || in.flag("parallel_attn", true);
  draft.layer.norms = 2;
  if (grouped)
    draft.layer.norms = static_cast<int>(in.size_or("num_ln_in_parallel_attn", 2, 2));
  else if (draft.layer.parallel_block)
    draft.layer.norms = 1;
  draft.model.alibi = in.flag("alibi", false);
  draft.model.rope = !draft.model.alibi;
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  return stack(std::move(draft));
}

Architecture read_phi(Fields& in) {
  Draft draft = start_plain(in, {.activation = "gelu_new"});
  set_all_biases(draft.layer, true);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.layer.norms = 1;
  draft.layer.parallel_block = true;
  draft.model.head_bias = true;
  draft.model.hidden_dropout = in.probability("resid_pdrop", 0);
  draft.model.embedding_dropout = in.probability("embd_pdrop", 0);
  if (in.flag("qk_layernorm", false))
    in.fail("qk_layernorm is true; no public Phi model has it and its norms are not modelled");
  return stack(std::move(draft));
}

Architecture read_nemotron(Fields& in) {
  Draft draft = start_plain(in, {.activation = "relu2"});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.model.hidden_dropout = in.probability("hidden_dropout", 0);
  return stack(std::move(draft));
}

Architecture read_starcoder2(Fields& in) {
  Draft draft = start_plain(in, {.kv_heads = 2, .tied = true, .activation = "gelu_pytorch_tanh"});
  set_all_biases(draft.layer, in.flag("use_bias", true));
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.layer.attention.sliding_window = in.size_or("sliding_window", limits::kPositions, 0);
  draft.model.hidden_dropout = in.probability("residual_dropout", 0);
  draft.model.embedding_dropout = in.probability("embedding_dropout", 0);
  return stack(std::move(draft));
}

Draft start_cohere(Fields& in) {
  Draft draft = start(in, {.tied = true});
  draft.model.norm = NormKind::kLayerNoBias;
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.layer.norms = 1;
  draft.layer.parallel_block = true;
  return draft;
}

Architecture read_cohere(Fields& in) {
  Draft draft = start_cohere(in);
  if (in.flag("use_qk_norm", false)) draft.layer.attention.qk_norm = QkNorm::kFull;
  return stack(std::move(draft));
}

// Three layers with a window, which rotate, then one that sees everything and does not.
Architecture read_cohere2(Fields& in) {
  Draft draft = start_cohere(in);
  const std::int64_t window = in.size_or("sliding_window", limits::kPositions, 4096);
  const std::int64_t period = in.size_or("sliding_window_pattern|_sliding_window_pattern", limits::kDepth, 4);
  const LayerRule full = full_attention_layers(in, draft.depth, "sliding_attention",
                                               [period](std::int64_t i) { return (i + 1) % period == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    layer.attention.sliding_window = full(i) ? 0 : window;
    layer.attention.rotates = !full(i);
  });
}

constexpr Family kHfClassicFamilies[] = {
    {"gpt2", read_gpt2},       {"gpt_neox", read_gpt_neox},       {"opt", read_opt},
    {"bloom", read_bloom},     {"falcon", read_falcon},           {"phi", read_phi},
    {"cohere", read_cohere},   {"nemotron", read_nemotron},       {"starcoder2", read_starcoder2},
    {"cohere2", read_cohere2}, {"gpt_bigcode", read_gpt_bigcode}, {"gptj", read_gptj},
    {"mpt", read_mpt},
};

}  // namespace

std::span<const Family> classic_families() { return kHfClassicFamilies; }

}  // namespace plimsoll::model
