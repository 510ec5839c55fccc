// SPDX-License-Identifier: Apache-2.0
// The model as Megatron's flags and Bridge's model section spell it. Every field is unset until a file
// or flag gives it; architecture_of() lays the given ones over a base model, or over Megatron's own
// defaults where there is no base (facts megatron-memory.md 1, 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"

namespace plimsoll::job {

enum class PositionKind : std::uint8_t { kLearned, kRope, kNone };

// Which of Megatron's models a program trains.
enum class ModelClass : std::uint8_t { kGpt, kBert, kT5 };

struct ModelKeys {
  std::optional<ModelClass> model_class;
  std::optional<std::int64_t> decoder_num_layers;
  std::optional<bool> bert_binary_head;
  std::int64_t vocab_extra_ids = 0;  // sentinels beside the vocabulary (T5)
  std::optional<std::int64_t> num_layers;
  std::optional<std::int64_t> hidden_size;
  std::optional<std::int64_t> ffn_hidden_size;
  std::optional<std::int64_t> num_attention_heads;
  std::optional<bool> group_query_attention;
  std::optional<std::int64_t> num_query_groups;
  std::optional<std::int64_t> kv_channels;
  std::optional<std::int64_t> vocab_size;
  bool null_tokenizer = false;  // Megatron's NullTokenizer adds one row for its end-of-document token
  std::optional<std::int64_t> max_position_embeddings;
  std::optional<PositionKind> position_embedding;
  std::optional<bool> rms_norm;
  std::optional<model::Activation> activation;
  std::optional<bool> gated;
  std::optional<bool> add_bias_linear;
  std::optional<bool> add_qkv_bias;
  std::optional<bool> tied_embeddings;
  std::optional<double> hidden_dropout;
  std::optional<double> attention_dropout;
  std::optional<bool> qk_layernorm;
  std::optional<bool> qk_l2_norm;  // queries and keys of every layer, without weights (Llama 4)
  std::optional<bool> sinks;       // softmax_type learnable
  std::optional<bool> attention_output_gate;
  std::optional<std::int64_t> sliding_window;
  std::optional<std::int64_t> window_period;  // layers n-1, 2n-1, ... attend to everything
  std::vector<bool> window_pattern;           // explicit: which layers have the window; wins over the period
  std::optional<std::int64_t> num_moe_experts;
  std::optional<std::int64_t> moe_router_topk;
  std::optional<std::int64_t> moe_ffn_hidden_size;
  std::optional<std::int64_t> moe_shared_expert_intermediate_size;
  std::optional<bool> moe_shared_expert_gate;
  std::optional<std::int64_t> moe_layer_period;  // layers 0, n, 2n, ... are MoE
  std::vector<bool> moe_layer_pattern;           // explicit; wins over the period
  std::optional<bool> multi_latent_attention;
  std::optional<std::int64_t> q_lora_rank;  // 0: the query is projected directly
  std::optional<std::int64_t> kv_lora_rank;
  std::optional<std::int64_t> qk_head_dim;
  std::optional<std::int64_t> qk_pos_emb_head_dim;
  std::optional<std::int64_t> v_head_dim;
  std::optional<std::int64_t> mtp_num_layers;
  bool mtp_use_repeated_layer = false;
  std::optional<std::int64_t> moe_latent_size;
  std::string hybrid_layer_pattern;         // one symbol per layer; empty: not a hybrid model (job/hybrid_pattern.h)
  std::string mtp_hybrid_override_pattern;  // of one MTP depth, where the pattern does not say
  double hybrid_attention_ratio = 0;        // the older way to say which layers are what
  double hybrid_mlp_ratio = 0;
  bool is_hybrid_model = false;
  std::optional<std::int64_t> mamba_state_dim;
  std::optional<std::int64_t> mamba_head_dim;
  std::optional<std::int64_t> mamba_num_heads;
  std::optional<std::int64_t> mamba_num_groups;
  std::optional<std::int64_t> mamba_chunk_size;
  std::string vision_tower;                // by its name; empty: what the model has itself
  std::string projector;                   // between the tower and the text; empty: LLaVA's two linears
  std::optional<std::int64_t> num_labels;  // a head of so many scores in place of the vocabulary's
  bool value_head = false;                 // beside it: the vocabulary's logits are made and not used

  bool any = false;  // a key was given
  [[nodiscard]] bool is_hybrid() const {
    return !hybrid_layer_pattern.empty() || hybrid_attention_ratio > 0 || hybrid_mlp_ratio > 0 || is_hybrid_model;
  }
  bool swiglu_ffn_rule = false;  // Megatron-LM's CLI: gated without a width means floor(8h/3/64)*64, not 4h
};

// The architecture that the keys describe; base has no layers where the keys must describe everything.
[[nodiscard]] Result<model::Architecture> architecture_of(const ModelKeys& keys, const model::Architecture& base);

// "1", "[0, 1, 1]" or Megatron's Python expression "([0]*3+[1]*12)" -> period or pattern.
[[nodiscard]] Status parse_moe_layer_freq(std::string_view text, ModelKeys& keys);

// The same for window_attn_skip_freq: "2" or "[1, 0, 1, 0]", where 1 is a layer with the window.
[[nodiscard]] Status parse_window_freq(std::string_view text, ModelKeys& keys);

}  // namespace plimsoll::job
