// SPDX-License-Identifier: Apache-2.0
// What a model is made of, independent of who trains it and how it is split. Every depth of the
// stack points at one of a few distinct layer kinds, so a 126-layer model is described by two structs.
// Invariant: layers[i] < kinds.size(), and no size is zero or negative where its feature is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::model {

struct Vision;       // model/vision.h
struct SharedBlock;  // model/parts.h
struct Streams;

enum class NormKind : std::uint8_t { kRms, kLayer, kLayerNoBias };
enum class Activation : std::uint8_t {
  kSilu,
  kGelu,     // one kernel (exact, tanh or quick)
  kGeluNew,  // GPT-2's chain of Python operations
  kRelu,
  kSquaredRelu,
  kQuickGelu,  // x * sigmoid(1.702 x)
  kGeluFast,   // a chain that multiplies where kGeluNew raises to a power
  kBloomGelu,  // one function of autograd around the same chain
  kXielu,      // two learned slopes, a chain of operations (Apertus)
};
enum class AttentionKind : std::uint8_t {
  kGqa,          // multi-head, grouped or multi-query
  kMla,          // multi-head latent attention (DeepSeek)
  kLinear,       // gated delta net (Qwen3-Next)
  kMamba2,       // state-space mixer, of the first or second kind
  kConvolution,  // a short convolution between two gates (LFM2)
  kLightning,    // linear attention in blocks whose decay is fixed (MiniMax)
  kNone,         // a layer that is only an MLP (Nemotron-H)
};
enum class QkNorm : std::uint8_t {
  kNone,
  kPerHead,  // one weight of head_dim shared by all heads (Qwen3, Gemma 3)
  kFull,     // one weight per projected channel (OLMo 2, MiniMax, Command-R+)
};

// What normalises the steps, B and C of a Mamba mixer of the first kind.
enum class StepNorm : std::uint8_t { kNone, kBare, kWeighted };

// A Mamba mixer. One of the first kind (step_rank > 0) scans channel by channel: its channels are one head.
struct StateSpace {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state = 0;
  std::int64_t groups = 0;
  std::int64_t conv = 0;   // kernel of the causal convolution
  std::int64_t chunk = 0;  // tokens of one block of the scan
  bool conv_bias = true;
  bool bias = false;           // of both projections
  bool norm = true;            // gated norm before the output projection
  std::int64_t step_rank = 0;  // of the projection to steps; 0: Mamba-2
  StepNorm step_norm = StepNorm::kNone;

  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  [[nodiscard]] bool is_first_kind() const { return step_rank > 0; }
  [[nodiscard]] std::int64_t conv_channels() const { return is_first_kind() ? inner() : inner() + 2 * groups * state; }
  friend bool operator==(const StateSpace&, const StateSpace&) = default;
};

struct Attention {
  AttentionKind kind = AttentionKind::kGqa;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool qkv_bias = false;
  bool out_bias = false;
  bool fused_qkv = false;    // one projection; a saved view keeps its whole output alive
  bool output_gate = false;  // the query projection is doubled (Qwen3-Next)
  bool sinks = false;        // one learned value per head (gpt-oss)
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_has_weight = true;   // Llama 4 normalises without weights
  std::int64_t sliding_window = 0;  // tokens; 0 means full attention (Llama 4: the chunk size)
  bool softcap = false;             // Gemma 2: tanh on the scores
  bool causal = true;               // false: every token sees every other (encoders)
  bool value_norm = false;          // values are normalised too, without weights (Gemma 3n)
  // Keys and values are those of the last layer below with the same window that makes its own (Gemma 3n).
  bool shares_keys = false;
  bool rotates = true;  // false: a layer without rotation in a rotary model (SmolLM3, Llama 4)
  // kMla
  std::int64_t q_lora_rank = 0;  // 0: the query is projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_dim = 0;
  std::int64_t qk_rope_dim = 0;
  std::int64_t v_head_dim = 0;
  std::int64_t index_heads = 0;  // sparse-attention indexer (DeepSeek V3.2); 0: none
  std::int64_t index_head_dim = 0;
  // kLinear
  std::int64_t linear_key_heads = 0;
  std::int64_t linear_key_dim = 0;
  std::int64_t linear_value_heads = 0;
  std::int64_t linear_value_dim = 0;
  std::int64_t linear_conv = 0;   // also of kConvolution
  std::int64_t linear_block = 0;  // kLightning: tokens that look at one another
  StateSpace mamba;               // kMamba2, or beside the attention of the same layer (Falcon-H1) where heads > 0

  friend bool operator==(const Attention&, const Attention&) = default;
};

struct FeedForward {
  std::int64_t width = 0;  // dense layers; 0 in a pure MoE layer
  bool gated = true;
  bool bias = false;
  bool fused_gate_up = false;  // gate and up are one projection (Phi-3)
  bool sparse = false;         // only gates far above the mean of their token pass (Gemma 3n)
  Activation activation = Activation::kSilu;
  // Mixture of experts; experts == 0 means a dense layer.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_width = 0;
  std::int64_t latent = 0;  // routed experts work at this width, between two projections of their own; 0: hidden
  bool expert_bias = false;
  bool router_bias = false;
  std::int64_t shared_width = 0;  // all shared experts together
  bool shared_gate = false;

  [[nodiscard]] bool is_moe() const { return experts > 0; }
  // What goes in and out of a routed expert.
  [[nodiscard]] std::int64_t expert_hidden(std::int64_t hidden) const { return latent > 0 ? latent : hidden; }
  [[nodiscard]] bool is_empty() const { return experts == 0 && width == 0; }
  friend bool operator==(const FeedForward&, const FeedForward&) = default;
};

struct Layer {
  Attention attention;
  FeedForward ffn;
  int norms = 2;  // hidden-sized norms per layer: 1 (parallel block), 2, or 4 (Gemma 2/3)
  // Attention and MLP read the same input: through one norm (Phi-2, Command-R, Falcon 7B) or one each
  // (norms == 2: GPT-NeoX, Falcon 40B).
  bool parallel_block = false;
  int shared_block = 0;  // 1 + which of the shared blocks runs before the mixer (Zamba 2); 0: none
  // A layer that is a mixer or an MLP alone, behind one norm (Nemotron-H).
  [[nodiscard]] bool has_mixer() const { return attention.kind != AttentionKind::kNone; }
  bool encoder = false;          // of the encoder of an encoder-decoder model
  bool cross_attention = false;  // also attends to the encoder's output, with a norm of its own

  friend bool operator==(const Layer&, const Layer&) = default;
};

// What makes a loss of the last hidden state.
enum class Head : std::uint8_t {
  kLanguage,  // one product with the vocabulary
  kMasked,    // dense, activation and norm before it, and a bias per word (BERT)
  kClasses,   // one product with the classes, of one token of each input (ViT)
  kScores,    // one product with the classes, of every token, of which the last one counts (rewards)
};

struct Architecture {
  // Defined once, not in every source that copies or drops one: they are long.
  Architecture();
  Architecture(const Architecture&);
  Architecture(Architecture&&) noexcept;
  Architecture& operator=(const Architecture&);
  Architecture& operator=(Architecture&&) noexcept;
  ~Architecture();

  std::string name;        // catalogue name, or where it was read
  std::string model_type;  // Hugging Face model_type; "gpt" for Megatron's own
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;  // rows as stored, before any padding by a framework
  bool tied_embeddings = false;
  std::vector<Layer> kinds;
  std::vector<std::uint8_t> layers;  // kinds index per depth
  NormKind norm = NormKind::kRms;
  bool post_norm_only = false;           // OLMo 2: norms after the blocks
  bool norm_in_fp32_to_the_end = false;  // Gemma: the weight is applied in fp32
  bool embedding_norm = false;           // BLOOM
  bool final_norm = true;                // false: OPT with do_layer_norm_before = false
  bool head_bias = false;                // Phi-2
  bool final_softcap = false;            // Gemma 2
  bool rope = true;
  std::int64_t position_rows = 0;     // learned position table; 0: none
  bool alibi = false;                 // linear biases on the scores by distance
  std::int64_t relative_buckets = 0;  // T5: a table of biases per head, one for each stack
  std::int64_t token_types = 0;       // BERT: rows of a second table of embeddings
  Head head = Head::kLanguage;
  bool pooled_pairs = false;            // BERT's second loss: does one sentence follow the other
  std::int64_t classes = 0;             // kClasses, kScores
  bool keeps_language_head = false;     // kScores: the vocabulary's product is made beside it, and nobody uses it
  std::int64_t patches = 0;             // of an image: tokens without the class token; 0: input is text
  std::int64_t patch_values = 0;        // channels x height x width of one patch
  std::int64_t mel_bins = 0;            // of speech: values of a frame, which two convolutions bring to hidden; 0: text
  std::int64_t source_positions = 0;    // of speech: what the encoder sees of them, with a table that is not trained
  std::int64_t embedding_dim = 0;       // OPT-350M: word_embed_proj_dim where it differs from hidden; 0: same
  std::int64_t mtp_layers = 0;          // multi-token prediction depths
  std::vector<std::uint8_t> mtp_kinds;  // kinds index per layer of one depth; empty: one layer as the last
  bool mtp_repeats = false;             // all depths are one and the same layer, run again
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double embedding_dropout = 0;
  std::int64_t max_positions = 0;  // 0: unknown
  // Numbers that no byte depends on, but without which a framework would train another model.
  std::int64_t rope_base = 0;                       // rope_theta; 0: unknown
  double rope_share = 1;                            // part of a head that rotates
  std::string rope_scaling;                         // llama3, yarn, ...; empty: none
  double rope_factor = 0;                           // of rope_scaling; 0: none or unknown
  double norm_epsilon = 0;                          // 0: unknown
  std::shared_ptr<const Vision> vision;             // a tower of images before the language model; null: none
  std::shared_ptr<const SharedBlock> shared_block;  // that some layers run; null: none
  std::shared_ptr<const Streams> streams;           // residual streams beside one another; null: one
  std::int64_t unmodelled = 0;                      // parameters of modules that are named in the warnings
  std::vector<std::string> warnings;                // "key: what of the file is not in the numbers"

  [[nodiscard]] std::int64_t depth() const { return static_cast<std::int64_t>(layers.size()); }
  [[nodiscard]] const Layer& layer(std::int64_t i) const { return kinds[layers[static_cast<std::size_t>(i)]]; }
  // The layers of one depth of multi-token prediction.
  [[nodiscard]] std::vector<std::uint8_t> mtp_depth() const {
    if (mtp_layers == 0 || layers.empty()) return {};
    return mtp_kinds.empty() ? std::vector<std::uint8_t>{layers.back()} : mtp_kinds;
  }
  // Depths that have weights of their own.
  [[nodiscard]] std::int64_t mtp_weights() const { return mtp_repeats && mtp_layers > 0 ? 1 : mtp_layers; }
  // Whether some layer is a state-space mixer.
  [[nodiscard]] bool has_mixers() const {
    for (const Layer& kind : kinds)
      if (kind.attention.kind == AttentionKind::kMamba2 || kind.attention.mamba.heads > 0) return true;
    return false;
  }
  // Layers of the encoder come first.
  [[nodiscard]] std::int64_t encoder_depth() const {
    std::int64_t count = 0;
    for (const std::uint8_t kind : layers) count += kinds[kind].encoder ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool has_moe() const {
    for (const Layer& kind : kinds)
      if (kind.ffn.is_moe()) return true;
    return false;
  }
};

// Upper bounds on every size, so that no product of three overflows: a 2^63-head model is an error here.
[[nodiscard]] Status validate(const Architecture& model);

}  // namespace plimsoll::model
