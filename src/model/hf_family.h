// SPDX-License-Identifier: Apache-2.0
// What the readers of the model families share. A family starts a draft from the keys that all files
// have, changes what is its own, and stacks the layers.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "model/architecture.h"
#include "model/fields.h"

namespace plimsoll::model {

struct Family {
  std::string_view model_type;
  Architecture (*read)(Fields& in);
};

// Tables of families, one per file; together they are what read_hf_config knows.
[[nodiscard]] std::span<const Family> dense_families();        // hf_dense.cpp: llama and its relatives
[[nodiscard]] std::span<const Family> late_dense_families();   // hf_dense_late.cpp: windows, short convolutions
[[nodiscard]] std::span<const Family> late_moe_families();     // hf_moe_late.cpp: later mixtures
[[nodiscard]] std::span<const Family> classic_families();      // hf_classic.cpp: LayerNorm and plain MLPs
[[nodiscard]] std::span<const Family> moe_families();          // hf_moe.cpp: mixtures with ordinary attention
[[nodiscard]] std::span<const Family> latent_families();       // hf_latent.cpp: DeepSeek's MLA
[[nodiscard]] std::span<const Family> hybrid_families();       // hf_hybrid.cpp: linear attention (Qwen3-Next, MiniMax)
[[nodiscard]] std::span<const Family> state_space_families();  // hf_state_space.cpp: Mamba-2 and its hybrids
[[nodiscard]] std::span<const Family> selective_families();    // hf_selective.cpp: Mamba and Jamba
[[nodiscard]] std::span<const Family> stream_families();       // hf_streams.cpp: Gemma 3n
[[nodiscard]] std::span<const Family> seq2seq_families();      // hf_seq2seq.cpp: BART and T5
[[nodiscard]] std::span<const Family> encoder_families();      // hf_encoder.cpp: BERT, T5, ViT and their relatives

// What a family's class assumes where a key is absent (facts models.md, Keys and defaults when absent).
struct Defaults {
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  bool tied = false;
  std::string_view activation = "silu";
  std::int64_t heads = 0;  // 0: the key must be there
  std::int64_t vocab = 0;  // 0: the key must be there
};

struct Draft {
  Architecture model;
  Layer layer;  // what all layers share
  std::int64_t depth = 1;
};

// hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, vocab_size,
// tie_word_embeddings, hidden_act, attention_dropout, max_position_embeddings and the MTP keys.
[[nodiscard]] Draft start(Fields& in, const Defaults& defaults);

// hidden / heads, which must divide.
[[nodiscard]] std::int64_t divided_head_dim(Fields& in, std::int64_t hidden, std::int64_t heads);

[[nodiscard]] Activation activation(Fields& in, std::string_view key, std::string_view fallback);

// Sets both biases from one key, as llama-like classes do.
void set_attention_bias(Layer& layer, bool bias);

// Experts of a layer; the dense width goes away.
void set_experts(FeedForward& ffn, std::int64_t experts, std::int64_t per_token, std::int64_t width);

// Finishes the stack: `shape` edits a copy of draft.layer for each depth; equal layers share a kind.
using ShapeLayer = std::function<void(std::int64_t depth, Layer& layer)>;
[[nodiscard]] Architecture stack(Draft draft, const ShapeLayer& shape = {});

// layer_types, where the file has it: which layers are "full_attention" and not `other`. Otherwise
// `rule` decides.
using LayerRule = std::function<bool(std::int64_t depth)>;
[[nodiscard]] LayerRule full_attention_layers(Fields& in, std::int64_t depth, std::string_view other, LayerRule rule);

// mlp_layer_types ("dense" or "sparse"), where the file has it. Otherwise `rule` decides.
[[nodiscard]] LayerRule moe_layers(Fields& in, std::int64_t depth, LayerRule rule);

}  // namespace plimsoll::model
