// SPDX-License-Identifier: Apache-2.0
// Models in Megatron's keys (facts megatron-memory.md 1, 2): one attention for all layers, one dense and one MoE
// kind. Everything that differs from that shape shows as a difference when the keys are read again.
#include <algorithm>

#include <fmt/format.h>

#include "emit/settings.h"
#include "job/hybrid_model.h"
#include "job/pipeline_layout.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::real_node;
using job::text_node;
using model::Activation;
using model::Architecture;
using model::Attention;
using model::AttentionKind;
using model::FeedForward;
using model::Layer;

namespace {

// "[1, 1, 0]" in Megatron's short form: ([1]*2+[0]*1).
template <class Is>
std::string layer_pattern(const Architecture& model, const Is& is) {
  std::string text;
  for (std::int64_t i = 0; i < model.depth();) {
    const bool one = is(model.layer(i));
    std::int64_t end = i;
    while (end < model.depth() && is(model.layer(end)) == one) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", one ? 1 : 0, end - i);
    i = end;
  }
  return "(" + text + ")";
}

// n where every n-th layer is one and no other is; 0 where no number says it.
template <class Is>
std::int64_t layer_period(const Architecture& model, const Is& is) {
  std::int64_t period = 1;
  while (period <= model.depth() && !is(model.layer(period - 1))) ++period;
  for (std::int64_t i = 0; i < model.depth(); ++i)
    if (is(model.layer(i)) != ((i + 1) % period == 0)) return 0;
  return period <= model.depth() ? period : 0;
}

// Which layers see everything, where others have a window.
void add_windows(const Architecture& model, std::int64_t seq_length, std::vector<Setting>& settings) {
  const auto has_window = [seq_length](const Layer& layer) {
    return layer.attention.sliding_window > 0 && layer.attention.sliding_window < seq_length;
  };
  const auto is_full = [&has_window](const Layer& layer) { return !has_window(layer); };
  std::int64_t window = 0;
  bool some_full = false;
  for (std::int64_t i = 0; i < model.depth(); ++i) {
    if (has_window(model.layer(i))) window = model.layer(i).attention.sliding_window;
    some_full = some_full || is_full(model.layer(i));
  }
  if (window == 0) return;
  settings.push_back({"window_size", text_node(fmt::format("({},0)", window - 1))});
  if (!some_full) return;
  const std::int64_t period = layer_period(model, is_full);
  settings.push_back(
      {"window_attn_skip_freq", period > 0 ? integer_node(period) : text_node(layer_pattern(model, has_window))});
}

// Megatron runs every activation alike but for its gate; the numbers are the flags' business.
bool same_activation(const FeedForward& a, const FeedForward& b, bool by_hub_modules) {
  if (a.activation == b.activation) return true;
  const auto smooth = [](Activation activation) {
    return activation != Activation::kRelu && activation != Activation::kSquaredRelu;
  };
  return !by_hub_modules && smooth(a.activation) && smooth(b.activation);
}

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
    case Activation::kQuickGelu:
      return "gelu";
    case Activation::kGeluNew:
    case Activation::kGeluFast:
    case Activation::kBloomGelu:
      return "gelu_new";
    case Activation::kRelu:
      return "relu";
    case Activation::kSquaredRelu:
      return "squared_relu";
    case Activation::kXielu:
      return "xielu";
  }
  return "gelu";
}

void add_attention(const Attention& attention, std::vector<Setting>& settings) {
  settings.push_back({"num_attention_heads", integer_node(attention.heads)});
  if (attention.kind == AttentionKind::kMla) {
    settings.push_back({"multi_latent_attention", bool_node(true)});
    settings.push_back({"q_lora_rank", integer_node(attention.q_lora_rank)});
    settings.push_back({"kv_lora_rank", integer_node(attention.kv_lora_rank)});
    settings.push_back({"qk_head_dim", integer_node(attention.qk_nope_dim)});
    settings.push_back({"qk_pos_emb_head_dim", integer_node(attention.qk_rope_dim)});
    settings.push_back({"v_head_dim", integer_node(attention.v_head_dim)});
  } else {
    if (attention.kv_heads != attention.heads) {
      settings.push_back({"group_query_attention", bool_node(true)});
      settings.push_back({"num_query_groups", integer_node(attention.kv_heads)});
    }
    settings.push_back({"kv_channels", integer_node(attention.head_dim)});
  }
  if (attention.qk_norm == model::QkNorm::kPerHead)
    settings.push_back({attention.qk_norm_has_weight ? "qk_layernorm" : "qk_l2_norm", bool_node(true)});
  if (attention.sinks) settings.push_back({"softmax_type", text_node("learnable")});
  if (attention.output_gate) settings.push_back({"attention_output_gate", bool_node(true)});
}

void add_experts(const Architecture& model, const FeedForward& ffn, std::vector<Setting>& settings) {
  settings.push_back({"num_moe_experts", integer_node(ffn.experts)});
  settings.push_back({"moe_router_topk", integer_node(ffn.experts_per_token)});
  settings.push_back({"moe_ffn_hidden_size", integer_node(ffn.expert_width)});
  if (ffn.shared_width > 0) settings.push_back({"moe_shared_expert_intermediate_size", integer_node(ffn.shared_width)});
  if (ffn.shared_gate) settings.push_back({"moe_shared_expert_gate", bool_node(true)});
  if (ffn.latent > 0) settings.push_back({"moe_latent_size", integer_node(ffn.latent)});
  if (job::is_hybrid(model)) return;  // the pattern says which layers are experts
  bool all = true;
  for (std::int64_t i = 0; i < model.depth(); ++i) all = all && model.layer(i).ffn.is_moe();
  if (!all)
    settings.push_back(
        {"moe_layer_freq", text_node(layer_pattern(model, [](const Layer& layer) { return layer.ffn.is_moe(); }))});
}

// The pattern says how many layers there are, and which; a block of other than 128 tokens has no flag in Megatron-LM.
void add_hybrid(const Architecture& model, std::vector<Setting>& settings) {
  settings.push_back({"hybrid_layer_pattern", text_node(job::pattern_of(model))});
  for (const Layer& kind : model.kinds) {
    if (kind.attention.kind != AttentionKind::kMamba2) continue;
    const model::StateSpace& mixer = kind.attention.mamba;
    settings.push_back({"mamba_state_dim", integer_node(mixer.state)});
    settings.push_back({"mamba_head_dim", integer_node(mixer.head_dim)});
    settings.push_back({"mamba_num_heads", integer_node(mixer.heads)});
    settings.push_back({"mamba_num_groups", integer_node(mixer.groups)});
    if (mixer.chunk != 128) settings.push_back({"mamba_chunk_size", integer_node(mixer.chunk)});
    return;
  }
}

struct Dimension {
  const char* key;
  bool same;
};

std::string first_difference(std::initializer_list<Dimension> dimensions) {
  for (const Dimension& dimension : dimensions)
    if (!dimension.same) return dimension.key;
  return {};
}

std::string attention_difference(const Attention& a, const Attention& b, bool by_hub_modules, std::int64_t seq_length) {
  // A window that no sequence fills is none.
  const auto window = [seq_length](const Attention& attention) {
    return seq_length > 0 && attention.sliding_window >= seq_length ? 0 : attention.sliding_window;
  };
  if (a.kind == AttentionKind::kMamba2 || a.kind == AttentionKind::kNone)
    return first_difference({{"hybrid_layer_pattern", a.kind == b.kind}, {"mamba_num_heads", a.mamba == b.mamba}});
  const bool mla = a.kind == AttentionKind::kMla;
  return first_difference({
      {"the model's linear attention", (a.kind == AttentionKind::kLinear) == (b.kind == AttentionKind::kLinear)},
      {"multi_latent_attention", a.kind == b.kind},
      {"num_attention_heads", a.heads == b.heads},
      {"num_query_groups", mla || a.kv_heads == b.kv_heads},
      {"kv_channels", mla || a.head_dim == b.head_dim},
      {"add_qkv_bias", a.qkv_bias == b.qkv_bias},
      {"add_bias_linear", a.out_bias == b.out_bias},
      {"attention_output_gate", a.output_gate == b.output_gate},
      {"qk_layernorm",
       a.qk_norm == b.qk_norm && (a.qk_norm == model::QkNorm::kNone || a.qk_norm_has_weight == b.qk_norm_has_weight)},
      {"window_size", window(a) == window(b)},
      {"q_lora_rank", !mla || a.q_lora_rank == b.q_lora_rank},
      {"kv_lora_rank", !mla || a.kv_lora_rank == b.kv_lora_rank},
      {"qk_head_dim", !mla || a.qk_nope_dim == b.qk_nope_dim},
      {"qk_pos_emb_head_dim", !mla || a.qk_rope_dim == b.qk_rope_dim},
      {"v_head_dim", !mla || a.v_head_dim == b.v_head_dim},
      {"the model's sparse-attention indexer", a.index_heads == b.index_heads && a.index_head_dim == b.index_head_dim},
      {"the model's attention sinks", a.sinks == b.sinks},
      {"the model's attention softcap", a.softcap == b.softcap},
      {"the model's fused projections", !by_hub_modules || a.fused_qkv == b.fused_qkv},
      {"the model's linear attention", a.linear_key_heads == b.linear_key_heads &&
                                           a.linear_key_dim == b.linear_key_dim &&
                                           a.linear_value_heads == b.linear_value_heads &&
                                           a.linear_value_dim == b.linear_value_dim && a.linear_conv == b.linear_conv},
  });
}

std::string feed_forward_difference(const FeedForward& a, const FeedForward& b, bool by_hub_modules) {
  if (a.is_empty() && b.is_empty()) return {};
  const bool moe = a.is_moe();
  const bool only_routed = moe && a.shared_width == 0;  // nothing else that could have a bias
  return first_difference({
      {"moe_layer_freq", moe == b.is_moe()},
      {"ffn_hidden_size", moe || a.width == b.width},
      {"gated_linear_unit", a.gated == b.gated},
      {"activation_func", same_activation(a, b, by_hub_modules)},
      {"add_bias_linear",
       (only_routed || a.bias == b.bias) && a.expert_bias == b.expert_bias && a.router_bias == b.router_bias},
      {"num_moe_experts", a.experts == b.experts},
      {"moe_router_topk", a.experts_per_token == b.experts_per_token},
      {"moe_ffn_hidden_size", a.expert_width == b.expert_width},
      {"moe_latent_size", a.latent == b.latent},
      {"moe_shared_expert_intermediate_size", a.shared_width == b.shared_width},
      {"moe_shared_expert_gate", a.shared_gate == b.shared_gate},
      {"the model's fused projections", !by_hub_modules || a.fused_gate_up == b.fused_gate_up},
  });
}

}  // namespace

std::string model_difference(const Architecture& a, const Architecture& b, bool by_hub_modules,
                             std::int64_t seq_length) {
  std::string key = first_difference({
      {"num_layers", a.depth() == b.depth()},
      {"hidden_size", a.hidden == b.hidden},
      {"vocab_size", a.vocab == b.vocab},
      {"share_embeddings_and_output_weights", a.tied_embeddings == b.tied_embeddings},
      {"normalization", a.norm == b.norm},
      {"position_embedding_type", a.rope == b.rope},
      {"max_position_embeddings", a.position_rows == b.position_rows},
      {"mtp_num_layers", a.mtp_layers == b.mtp_layers},
      {"hybrid_layer_pattern", a.mtp_depth().size() == b.mtp_depth().size()},
      {"mtp_use_repeated_layer", a.mtp_weights() == b.mtp_weights()},
      {"hidden_dropout", a.hidden_dropout == b.hidden_dropout},
      {"the model's embedding dropout", a.embedding_dropout == b.embedding_dropout},
      {"attention_dropout", a.attention_dropout == b.attention_dropout},
      {"the model's norm placement", a.post_norm_only == b.post_norm_only && a.final_norm == b.final_norm},
      {"the model's embedding norm", a.embedding_norm == b.embedding_norm},
      {"the model's head bias", a.head_bias == b.head_bias},
      {"the model's logit softcap", a.final_softcap == b.final_softcap},
      {"the model's embedding_dim", a.embedding_dim == b.embedding_dim},
      {"the model's norm dtype", !by_hub_modules || a.norm_in_fp32_to_the_end == b.norm_in_fp32_to_the_end},
      {"the model's model_type", !by_hub_modules || a.model_type == b.model_type},
  });
  for (std::int64_t i = 0; key.empty() && i < a.depth(); ++i) {
    const Layer& left = a.layer(i);
    const Layer& right = b.layer(i);
    key = attention_difference(left.attention, right.attention, by_hub_modules, seq_length);
    if (key.empty()) key = feed_forward_difference(left.ffn, right.ffn, by_hub_modules);
    if (key.empty() && (left.norms != right.norms || left.parallel_block != right.parallel_block))
      key = "the model's norms per layer";
  }
  return key;
}

std::vector<Setting> model_settings(const Architecture& model, std::int64_t seq_length) {
  if (model.layers.empty()) return {};
  const bool hybrid = job::is_hybrid(model);
  const Layer* dense = nullptr;
  const Layer* moe = nullptr;
  for (std::int64_t i = 0; i < model.depth(); ++i) {
    if (hybrid && model.layer(i).ffn.is_empty()) continue;
    const Layer*& kind = model.layer(i).ffn.is_moe() ? moe : dense;
    if (kind == nullptr) kind = &model.layer(i);
  }
  if (dense == nullptr && moe == nullptr) dense = &model.layer(0);  // mixers and attention alone
  const Layer& any = dense != nullptr ? *dense : *moe;
  // A model with linear attention has heads of its own in the other layers.
  const auto softmax = std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) {
    return kind.attention.kind == AttentionKind::kGqa || kind.attention.kind == AttentionKind::kMla;
  });
  const Attention& attention = softmax == model.kinds.end() ? any.attention : softmax->attention;
  std::vector<Setting> settings;
  if (hybrid) {
    add_hybrid(model, settings);
  } else {
    settings.push_back({"num_layers", integer_node(model.depth())});
  }
  settings.push_back({"hidden_size", integer_node(model.hidden)});
  const std::int64_t width = dense != nullptr ? any.ffn.width : any.ffn.expert_width;
  if (width > 0) settings.push_back({"ffn_hidden_size", integer_node(width)});
  add_attention(attention, settings);
  add_windows(model, seq_length, settings);
  const std::int64_t positions =
      model.position_rows > 0 ? model.position_rows : std::max(model.max_positions, seq_length);
  settings.push_back({"max_position_embeddings", integer_node(positions)});
  const char* position = model.rope ? "rope" : model.position_rows > 0 ? "learned_absolute" : "none";
  settings.push_back({"position_embedding_type", text_node(position)});
  settings.push_back({"normalization", text_node(model.norm == model::NormKind::kRms ? "RMSNorm" : "LayerNorm")});
  settings.push_back({"activation_func", text_node(std::string(name_of(any.ffn.activation)))});
  settings.push_back({"gated_linear_unit", bool_node(any.ffn.gated)});
  settings.push_back({"add_bias_linear", bool_node(attention.out_bias)});
  if (attention.qkv_bias && !attention.out_bias) settings.push_back({"add_qkv_bias", bool_node(true)});
  settings.push_back({"share_embeddings_and_output_weights", bool_node(model.tied_embeddings)});
  settings.push_back({"hidden_dropout", real_node(model.hidden_dropout)});
  settings.push_back({"attention_dropout", real_node(model.attention_dropout)});
  if (moe != nullptr) add_experts(model, moe->ffn, settings);
  if (model.mtp_layers > 0) settings.push_back({"mtp_num_layers", integer_node(model.mtp_layers)});
  if (model.mtp_layers > 0 && model.mtp_repeats) settings.push_back({"mtp_use_repeated_layer", bool_node(true)});
  return settings;
}

std::vector<Setting> model_settings(const job::Job& job) {
  std::vector<Setting> settings = model_settings(job.model, job.batch.seq_length);
  if (job.parallel.layout.empty() || !job::is_hybrid(job.model)) return settings;
  const auto layout = job::pipeline_layout(job);
  if (!layout) return settings;
  // '|' where a stage ends: stage i is chunk i / pipeline of rank i % pipeline.
  std::string cut;
  const std::string whole = job::pattern_of(job.model);
  std::size_t at = 0;
  for (std::int64_t chunk = 0; chunk < job.parallel.virtual_pipeline; ++chunk)
    for (const auto& rank : layout->ranks) {
      const auto layers = static_cast<std::size_t>(rank[static_cast<std::size_t>(chunk)].num_layers);
      cut += (chunk == 0 && &rank == &layout->ranks.front() ? "" : "|") + whole.substr(at, layers);
      at += layers;
    }
  for (Setting& setting : settings)
    if (setting.key == "hybrid_layer_pattern") setting.value = text_node(cut + whole.substr(at));
  return settings;
}

}  // namespace plimsoll::emit
