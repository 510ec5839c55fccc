// SPDX-License-Identifier: Apache-2.0
// Keys that describe the model, in Megatron's spelling (facts megatron-memory.md 1, 2).
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "job/hybrid_pattern.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

constexpr Range kWidth{1, 1 << 24};
constexpr Range kWidthOrZero{0, 1 << 24};
constexpr Range kDepth{1, 100'000};
constexpr Range kHeadSize{1, 1 << 16};

Status set_tokenizer(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  job.model_keys.null_tokenizer = name == "NullTokenizer";
  return {};
}

Status set_position(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  if (name == "learned_absolute") {
    job.model_keys.position_embedding = PositionKind::kLearned;
  } else if (name == "rope" || name == "mrope" || name == "yarn") {
    job.model_keys.position_embedding = PositionKind::kRope;
  } else if (name == "none") {
    job.model_keys.position_embedding = PositionKind::kNone;
  } else {
    return bad_input(fmt::format("found {}, wanted learned_absolute, rope, mrope, yarn or none", shown(value)));
  }
  return {};
}

Status set_rotary(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (on) job.model_keys.position_embedding = PositionKind::kRope;
  return {};
}

// --no-position-embedding: no table, unless another key says that positions are rotary.
Status set_add_position(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on && job.model_keys.position_embedding != PositionKind::kRope)
    job.model_keys.position_embedding = PositionKind::kNone;
  return {};
}

Status set_normalization(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  const bool rms = equals_ignoring_case(name, "RMSNorm");
  if (!rms && !equals_ignoring_case(name, "LayerNorm"))
    return bad_input(fmt::format("found {}, wanted RMSNorm or LayerNorm", shown(value)));
  job.model_keys.rms_norm = rms;
  return {};
}

// Accepts Python paths too: torch.nn.functional.silu.
Status set_activation(Job& job, const Node& value) {
  PLIMSOLL_TRY(path, to_word(value));
  const std::string name = lower(split(path, '.').back());
  struct Row {
    std::string_view name;
    model::Activation activation;
  };
  constexpr Row kRows[] = {{"silu", model::Activation::kSilu},
                           {"swish", model::Activation::kSilu},
                           {"gelu", model::Activation::kGelu},
                           {"quick_gelu", model::Activation::kGelu},
                           {"fast_gelu", model::Activation::kGelu},
                           {"openai_gelu", model::Activation::kGelu},
                           {"gelu_pytorch_tanh", model::Activation::kGelu},
                           {"gelu_new", model::Activation::kGeluNew},
                           {"relu", model::Activation::kRelu},
                           {"squared_relu", model::Activation::kSquaredRelu}};
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    job.model_keys.activation = row.activation;
    return {};
  }
  return bad_input(
      fmt::format("found {}, wanted silu, gelu, quick_gelu, gelu_new, relu or squared_relu", shown(value)));
}

Status set_swiglu(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on) return {};
  job.model_keys.activation = model::Activation::kSilu;
  job.model_keys.gated = true;
  return {};
}

Status set_squared_relu(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on) return {};
  job.model_keys.activation = model::Activation::kSquaredRelu;
  job.model_keys.gated = false;
  return {};
}

Status set_quick_geglu(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on) return {};
  job.model_keys.activation = model::Activation::kGelu;
  job.model_keys.gated = true;
  return {};
}

Status set_q_lora_rank(Job& job, const Node& value) {
  if (value.is_null()) {
    job.model_keys.q_lora_rank = 0;
    return {};
  }
  PLIMSOLL_TRY(rank, to_integer(value, kWidthOrZero));
  job.model_keys.q_lora_rank = rank;
  return {};
}

Status set_moe_layer_freq(Job& job, const Node& value) {
  return parse_moe_layer_freq(document::to_text(value), job.model_keys);
}

Status set_window_freq(Job& job, const Node& value) {
  if (value.is_null()) return {};
  return parse_window_freq(document::to_text(value), job.model_keys);
}

// Only a learned sink has a weight; "off-by-one" is a sink of zero.
Status set_softmax_type(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  if (name != "vanilla" && name != "off-by-one" && name != "learnable")
    return bad_input(fmt::format("found {}, wanted vanilla, off-by-one or learnable", shown(value)));
  job.model_keys.sinks = name == "learnable";
  return {};
}

// Megatron's window is (tokens to the left, tokens to the right): (4095, 0) attends to 4096 tokens.
Status set_window(Job& job, const Node& value) {
  if (value.is_null()) return {};
  if (value.is_integer()) {
    PLIMSOLL_TRY(window, to_integer(value, kSizeOrZero));
    job.model_keys.sliding_window = window;
    return {};
  }
  std::string text = document::to_text(value);
  for (char& c : text)
    if (c == '(' || c == ')' || c == '[' || c == ']') c = ' ';
  PLIMSOLL_TRY(words, to_words(text_node(text)));
  if (words.size() != 2) return bad_input(fmt::format("found {}, wanted (left, right)", shown(value)));
  PLIMSOLL_TRY(left, to_integer(text_node(words[0]), Range{-1, 1LL << 40}));
  job.model_keys.sliding_window = left < 0 ? 0 : left + 1;
  return {};
}

Status set_class(Job& job, const Node& value) {
  PLIMSOLL_TRY(name, to_word(value));
  constexpr std::pair<std::string_view, ModelClass> kClasses[] = {
      {"gpt", ModelClass::kGpt}, {"bert", ModelClass::kBert}, {"t5", ModelClass::kT5}};
  for (const auto& [word, kind] : kClasses) {
    if (word != name) continue;
    job.model_keys.model_class = kind;
    return {};
  }
  return bad_input(fmt::format("found {}, wanted gpt, bert or t5", shown(value)));
}

Status set_text(std::string& field, const Node& value) {
  if (value.is_null()) {
    field.clear();
    return {};
  }
  PLIMSOLL_TRY(text, to_word(value));
  field = std::string(trim(text));
  return {};
}

Status set_hybrid_pattern(Job& job, const Node& value) {
  // The layout that follows from the pattern before.
  if (!job.model_keys.hybrid_layer_pattern.empty() && !job.has("pipeline_model_parallel_layout"))
    job.parallel.layout.clear();
  PLIMSOLL_TRY_STATUS(set_text(job.model_keys.hybrid_layer_pattern, value));
  if (job.model_keys.hybrid_layer_pattern.empty()) return {};
  if (auto parsed = parse_hybrid_pattern(job.model_keys.hybrid_layer_pattern); !parsed)
    return tl::make_unexpected(std::move(parsed.error()));
  return {};
}

Status set_mtp_pattern(Job& job, const Node& value) {
  return set_text(job.model_keys.mtp_hybrid_override_pattern, value);
}

const Key kModelKeys[] = {
    {"model_class", kBoth, Custom{set_class, "gpt, bert, t5"}, "which of Megatron's models is trained"},
    {"decoder_num_layers", kBoth, PLIMSOLL_FIELD(model_keys.decoder_num_layers),
     "says that the model is a T5, whose decoder pretrain_t5.py builds with num_layers layers all the same", kDepth},
    {"bert_binary_head", kBytes, PLIMSOLL_FIELD(model_keys.bert_binary_head),
     "BERT's second loss: does one sentence follow the other"},
    {"vocab_extra_ids", kBoth, PLIMSOLL_FIELD(model_keys.vocab_extra_ids), "sentinels beside the vocabulary (T5)",
     kWidthOrZero},
    {"num_layers", kBoth, PLIMSOLL_FIELD(model_keys.num_layers), "decoder layers", kDepth},
    {"hidden_size", kBoth, PLIMSOLL_FIELD(model_keys.hidden_size), "width of the residual stream", kWidth},
    {"ffn_hidden_size", kBoth, PLIMSOLL_FIELD(model_keys.ffn_hidden_size), "width of a dense MLP", kWidth},
    {"num_attention_heads", kBoth, PLIMSOLL_FIELD(model_keys.num_attention_heads), "query heads", kWidth},
    {"group_query_attention", kBoth, PLIMSOLL_FIELD(model_keys.group_query_attention), "num_query_groups applies"},
    {"num_query_groups", kBoth, PLIMSOLL_FIELD(model_keys.num_query_groups), "key and value heads", kWidth},
    {"kv_channels", kBoth, PLIMSOLL_FIELD(model_keys.kv_channels), "size of one head", kWidth},
    {"vocab_size", kBoth, PLIMSOLL_FIELD(model_keys.vocab_size), "rows of the vocabulary before padding",
     Range{1, 1 << 28}},
    {"tokenizer_type", kBoth, Custom{set_tokenizer, "text"}, "NullTokenizer adds one row to the vocabulary"},
    {"max_position_embeddings", kBytes, PLIMSOLL_FIELD(model_keys.max_position_embeddings),
     "longest sequence of the model", Range{1, 1 << 30}},
    {"position_embedding_type", kBoth, Custom{set_position, "learned_absolute, rope, mrope, yarn, none"},
     "how positions enter"},
    {"use_rotary_position_embeddings", kBoth, Custom{set_rotary, "boolean"},
     "the same as position_embedding_type rope"},
    {"add_position_embedding", kBoth, Custom{set_add_position, "boolean"}, "false: no learned positions"},
    {"normalization", kBoth, Custom{set_normalization, "RMSNorm, LayerNorm"}, "kind of the norms"},
    {"activation_func", kBoth, Custom{set_activation, "silu, gelu, quick_gelu, gelu_new, relu, squared_relu"},
     "activation of the MLP"},
    {"gated_linear_unit", kBoth, PLIMSOLL_FIELD(model_keys.gated), "the MLP has a gate projection"},
    {"swiglu", kBoth, Custom{set_swiglu, "boolean"}, "SiLU with a gate projection"},
    {"quick_geglu", kBoth, Custom{set_quick_geglu, "boolean"}, "quick GELU with a gate projection"},
    {"squared_relu", kBoth, Custom{set_squared_relu, "boolean"}, "squared ReLU without a gate projection"},
    {"add_bias_linear", kBoth, PLIMSOLL_FIELD(model_keys.add_bias_linear), "all linear layers have biases"},
    {"add_qkv_bias", kBoth, PLIMSOLL_FIELD(model_keys.add_qkv_bias), "the QKV projection has a bias"},
    {"share_embeddings_and_output_weights", kBoth, PLIMSOLL_FIELD(model_keys.tied_embeddings),
     "head and embedding are one"},
    {"hidden_dropout", kBoth, PLIMSOLL_FIELD(model_keys.hidden_dropout), "dropout after attention and MLP", kFraction},
    {"attention_dropout", kBoth, PLIMSOLL_FIELD(model_keys.attention_dropout), "dropout of attention scores",
     kFraction},
    {"qk_layernorm", kBoth, PLIMSOLL_FIELD(model_keys.qk_layernorm), "queries and keys are normalised per head"},
    {"qk_l2_norm", kBoth, PLIMSOLL_FIELD(model_keys.qk_l2_norm), "queries and keys are normalised without weights"},
    {"softmax_type", kBoth, Custom{set_softmax_type, "vanilla, off-by-one, learnable"}, "learnable: one sink per head"},
    {"attention_output_gate", kBoth, PLIMSOLL_FIELD(model_keys.attention_output_gate),
     "the query projection is doubled"},
    {"window_size", kBoth, Custom{set_window, "(left, right)"}, "sliding-window attention"},
    {"window_attn_skip_freq", kSeconds, Custom{set_window_freq, "integer or list of 0 and 1"},
     "which layers have the window: all but every n-th"},
    {"num_moe_experts", kBoth, PLIMSOLL_FIELD(model_keys.num_moe_experts), "routed experts of a MoE layer",
     Range{1, 65536}},
    {"moe_router_topk", kBoth, PLIMSOLL_FIELD(model_keys.moe_router_topk), "experts that a token visits",
     Range{1, 65536}},
    {"moe_ffn_hidden_size", kBoth, PLIMSOLL_FIELD(model_keys.moe_ffn_hidden_size), "width of one expert", kWidth},
    {"moe_shared_expert_intermediate_size", kBoth, PLIMSOLL_FIELD(model_keys.moe_shared_expert_intermediate_size),
     "width of all shared experts together", kWidthOrZero},
    {"moe_shared_expert_gate", kBoth, PLIMSOLL_FIELD(model_keys.moe_shared_expert_gate),
     "the shared experts are gated"},
    {"moe_layer_freq", kBoth, Custom{set_moe_layer_freq, "integer or list of 0 and 1"}, "which layers are MoE"},
    {"multi_latent_attention", kBoth, PLIMSOLL_FIELD(model_keys.multi_latent_attention), "MLA instead of GQA"},
    {"q_lora_rank", kBoth, Custom{set_q_lora_rank, "integer or null"},
     "MLA: rank of the query; null projects directly"},
    {"kv_lora_rank", kBoth, PLIMSOLL_FIELD(model_keys.kv_lora_rank), "MLA: rank of keys and values", kWidth},
    {"qk_head_dim", kBoth, PLIMSOLL_FIELD(model_keys.qk_head_dim), "MLA: head size without positions", kWidth},
    {"qk_pos_emb_head_dim", kBoth, PLIMSOLL_FIELD(model_keys.qk_pos_emb_head_dim), "MLA: head size with positions",
     kWidth},
    {"v_head_dim", kBoth, PLIMSOLL_FIELD(model_keys.v_head_dim), "MLA: head size of values", kWidth},
    {"mtp_num_layers", kBoth, PLIMSOLL_FIELD(model_keys.mtp_num_layers), "multi-token prediction depths", Range{0, 64}},
    {"mtp_use_repeated_layer", kBoth, PLIMSOLL_FIELD(model_keys.mtp_use_repeated_layer),
     "all depths of multi-token prediction run one and the same layer"},
    {"moe_latent_size", kBoth, PLIMSOLL_FIELD(model_keys.moe_latent_size),
     "routed experts work at this width, between two projections", kWidth},
    {"hybrid_layer_pattern", kBoth, Custom{set_hybrid_pattern, "text"},
     "a hybrid model, layer by layer: M a Mamba-2 mixer, * attention, + latent attention, - an MLP, E experts; | cuts "
     "the pipeline, / begins the layers of an MTP depth"},
    {"mtp_hybrid_override_pattern", kBoth, Custom{set_mtp_pattern, "text"},
     "layers of one MTP depth of a hybrid model, where hybrid_layer_pattern has none"},
    {"hybrid_attention_ratio", kBoth, PLIMSOLL_FIELD(model_keys.hybrid_attention_ratio),
     "share of attention among the layers of a hybrid model without a pattern", kFraction},
    {"hybrid_mlp_ratio", kBoth, PLIMSOLL_FIELD(model_keys.hybrid_mlp_ratio),
     "share of MLPs among the layers of a hybrid model without a pattern", kFraction},
    {"is_hybrid_model", kNeither, PLIMSOLL_FIELD(model_keys.is_hybrid_model),
     "says that the model is a hybrid one, which its pattern says too"},
    {"mamba_state_dim", kBoth, PLIMSOLL_FIELD(model_keys.mamba_state_dim), "state of a Mamba-2 head", kHeadSize},
    {"mamba_head_dim", kBoth, PLIMSOLL_FIELD(model_keys.mamba_head_dim), "size of a Mamba-2 head", kHeadSize},
    {"mamba_num_heads", kBoth, PLIMSOLL_FIELD(model_keys.mamba_num_heads),
     "heads of a Mamba-2 mixer; not given: twice the hidden size in heads of mamba_head_dim", kHeadSize},
    {"mamba_num_groups", kBoth, PLIMSOLL_FIELD(model_keys.mamba_num_groups), "groups of heads that share B and C",
     kHeadSize},
    {"mamba_chunk_size", kBoth, PLIMSOLL_FIELD(model_keys.mamba_chunk_size), "tokens of one block of the Mamba-2 scan",
     kWidth},
    {"vision_tower", kBoth, PLIMSOLL_FIELD(model_keys.vision_tower),
     "a tower for images before a language model, by its name on the Hub (LLaVA)"},
    {"mm_projector_type", kBoth, PLIMSOLL_FIELD(model_keys.projector),
     "between vision_tower and the text: linear, mlp2x_gelu or mlp_downsample"},
    {"num_labels", kBoth, PLIMSOLL_FIELD(model_keys.num_labels),
     "a head of so many scores in place of the vocabulary's: 1 for a reward model", Range{1, 1 << 20}},
    {"value_head", kBoth, PLIMSOLL_FIELD(model_keys.value_head),
     "the head of num_labels stands beside the vocabulary's, whose logits are made and not used (TRL's value head)"},
};

const Key kVocabularyKeys[] = {
    {"padded_vocab_size", kBoth, PLIMSOLL_FIELD(padded_vocab), "rows after padding, where the framework's log says it",
     Range{1, 1 << 28}},
    {"make_vocab_size_divisible_by", kBoth, PLIMSOLL_FIELD(make_vocab_size_divisible_by), "padding unit per TP rank",
     Range{1, 1 << 20}},
    {"should_pad_vocab", kBytes, PLIMSOLL_FIELD(pad_vocab), "the vocabulary is padded at all"},
};

}  // namespace

std::span<const Key> model_key_rows() { return kModelKeys; }
std::span<const Key> vocabulary_key_rows() { return kVocabularyKeys; }

}  // namespace plimsoll::job
