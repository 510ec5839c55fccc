// SPDX-License-Identifier: Apache-2.0
// A decoder that a file spells out in sizes. Its layers are those of the family that has such words: an expansion of
// the MLP without a gate is MPT's, a width or a multiple to round it to is Llama's.
#include <algorithm>

#include "base/text.h"
#include "framework/tools/by_names.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::int64_t kLargest = 1 << 24;

struct Sizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, vocab = 0, width = 0, multiple = 0, experts = 0,
               chosen = 0;
  double ratio = 0, multiplier = 1;
  bool tied = false;
  bool tied_is_said = false;
  bool is_other = false;      // state spaces, recurrence: no decoder of attention and an MLP
  bool is_reference = false;  // dim: the word of Llama's reference code
  bool is_gated = false;      // activation_type: swiglu, whose width counts gate and value together (OLMo)
  bool has_qk_norm = false;   // attention_layer_norm
  bool is_plain = false;      // activation_function: gelu, the word of GPT's line, whose MLP has no gate
  std::int64_t rows = 0;      // embedding_size: the vocabulary after padding
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The words for one size, and where it goes.
struct Word {
  std::string_view names;  // separated by blanks
  std::int64_t Sizes::* field;
};

constexpr Word kWords[] = {
    {"n_layers num_layers num_hidden_layers n_layer", &Sizes::layers},
    {"d_model dim hidden_size n_embd hidden_dim embed_dim hidden_width", &Sizes::hidden},
    {"n_heads num_heads num_attention_heads n_head", &Sizes::heads},
    {"n_kv_heads num_kv_heads num_key_value_heads kv_n_heads n_query_groups", &Sizes::kv_heads},
    {"vocab_size padded_vocab_size", &Sizes::vocab},
    {"intermediate_size ffn_hidden_size d_ff ffn_dim mlp_hidden_size", &Sizes::width},
    {"num_experts moe_num_experts n_experts num_local_experts", &Sizes::experts},
    {"moe_top_k num_experts_per_tok", &Sizes::chosen},
    {"multiple_of", &Sizes::multiple},
    {"embedding_size", &Sizes::rows},
};

bool holds(std::string_view names, std::string_view word) {
  const std::vector<std::string_view> all = split(names, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool is_ratio(std::string_view word) { return is_one_of(word, {"expansion_ratio", "mlp_ratio"}); }

bool is_tie(std::string_view word) {
  return is_one_of(word, {"tie_word_embeddings", "tie_embeddings", "weight_tying"});
}

// State spaces and recurrence are named by their parts or by the model's type.
bool names_other_layers(std::string_view last, const Node& value) {
  const bool is_of_files = last.find("state_dict") != std::string_view::npos;
  for (const std::string_view word : split(last, '_'))
    if (!is_of_files && is_one_of(word, {"state", "ssm", "conv", "lru", "rnn", "lstm", "gru", "mamba", "rwkv"}))
      return true;
  if (!is_one_of(last, {"model_type", "arch", "architecture"}) || !value.is_string()) return false;
  const std::string family = lower(value.text);
  for (const std::string_view word :
       {"llama",   "gpt",      "mpt",     "transformer", "decoder",  "causal", "lm",     "qwen",
        "mistral", "mixtral",  "gemma",   "phi",         "olmo",     "falcon", "pythia", "opt",
        "bloom",   "language", "encoder", "baichuan",    "deepseek", "vicuna", "yi"})
    if (family.find(word) != std::string::npos) return false;
  return true;
}

void take(std::string_view last, const Node& value, Sizes& sizes) {
  const auto integer = to_integer(value, Range{1, kLargest});
  const auto real = to_real(value, Range{0, 1024});
  for (const Word& word : kWords)
    if (integer && holds(word.names, last)) sizes.*word.field = *integer;
  if (last == "dim") sizes.is_reference = true;
  if (is_ratio(last) && real) sizes.ratio = *real;
  if (last == "activation_type" && value.is_string()) sizes.is_gated = lower(value.text) == "swiglu";
  if (last == "activation_function" && value.is_string()) {
    const std::string word = lower(value.text);
    sizes.is_plain = word.starts_with("gelu") || word.starts_with("relu");
  }
  if (last == "attention_layer_norm") sizes.has_qk_norm = !is_off(value);
  if (last == "ffn_dim_multiplier" && real && *real > 0) sizes.multiplier = *real;
  if (is_tie(last)) {
    sizes.tied = !is_off(value);
    sizes.tied_is_said = true;
  }
  sizes.is_other = sizes.is_other || names_other_layers(last, value);
}

Node config_of(const Sizes& sizes, std::string_view family) {
  Node config;
  config.kind = Node::Kind::kObject;
  const auto put = [&config](const char* key, Node value) { config.members.emplace_back(key, std::move(value)); };
  put("model_type", text_node(std::string(family)));
  const bool is_mpt = family == "mpt";
  put(is_mpt ? "d_model" : "hidden_size", integer_node(sizes.hidden));
  put(is_mpt ? "n_heads" : "num_attention_heads", integer_node(sizes.heads));
  put(is_mpt ? "n_layers" : "num_hidden_layers", integer_node(sizes.layers));
  if (sizes.vocab > 0) put("vocab_size", integer_node(sizes.vocab));
  if (sizes.tied_is_said) put("tie_word_embeddings", bool_node(sizes.tied));
  return config;
}

Sizes sizes_of(const Node& root) {
  Sizes sizes;
  for_each_leaf(root, [&sizes](const std::string& path, const Node& value) {
    const std::vector<std::string_view> parts = split(path, '.');
    const bool is_models = parts.size() == 1 || std::any_of(parts.begin(), parts.end() - 1, [](std::string_view part) {
                             return part.starts_with("model");
                           });
    if (is_models && !value.is_null()) take(parts.back(), value, sizes);
  });
  return sizes;
}

}  // namespace

bool is_size_of_model(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') == std::string_view::npos ? 0 : path.rfind('.') + 1);
  return is_ratio(last) || is_tie(last) || last == "ffn_dim_multiplier" || last == "attention_layer_norm" ||
         std::any_of(std::begin(kWords), std::end(kWords),
                     [last](const Word& word) { return holds(word.names, last); });
}

namespace {

// "_target_: transformers.GPT2Config": the class that the table's keys are arguments of, as Hydra calls it.
const Node* find_config_class(const Node& node, std::string& path) {
  if (const Node* target = node.find("_target_"); target != nullptr && target->is_string())
    if (target->text.starts_with("transformers.") && target->text.ends_with("Config")) return &node;
  for (const auto& [key, value] : node.members) {
    if (!value.is_object()) continue;
    std::string inner = path + key + ".";
    if (const Node* found = find_config_class(value, inner)) {
      path = std::move(inner);
      return found;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<WrittenClass> architecture_of_class(const Node& root) {
  WrittenClass written;
  const Node* found = find_config_class(root, written.path);
  if (found == nullptr) return std::nullopt;
  const std::string& target = found->find("_target_")->text;
  std::string family = lower(target.substr(target.rfind('.') + 1));
  family.resize(family.size() - std::string_view("Config").size());
  written.config.kind = Node::Kind::kObject;
  written.config.members.emplace_back("model_type", text_node(family));
  for (const auto& [key, value] : found->members)
    if (!key.starts_with("_") && !value.is_object() &&
        !(value.is_string() && value.text.find("${") != std::string::npos))
      written.config.members.emplace_back(key, value);
  return written;
}

bool has_other_layers(const Node& root) { return sizes_of(root).is_other; }

std::optional<Node> architecture_of_names(const Node& root) {
  Sizes sizes = sizes_of(root);
  if (sizes.is_other) return std::nullopt;
  if (sizes.layers == 0 || sizes.hidden == 0 || sizes.heads == 0) return std::nullopt;
  // OLMoE's words are OLMo's; experts in others' are not known.
  const bool is_mixture = sizes.experts > 1;
  if (is_mixture && (!sizes.is_gated || !sizes.has_qk_norm || sizes.chosen == 0)) return std::nullopt;
  sizes.vocab = std::max(sizes.vocab, sizes.rows);
  // OLMo's words: gate and value are one projection, whose halves are the width.
  if (sizes.is_gated && (sizes.ratio > 0 || sizes.width > 0)) {
    const std::int64_t whole =
        sizes.width > 0 ? sizes.width : static_cast<std::int64_t>(sizes.ratio * static_cast<double>(sizes.hidden));
    Node config = config_of(sizes, is_mixture ? "olmoe" : sizes.has_qk_norm ? "olmo2" : "olmo");
    if (is_mixture) {
      config.members.emplace_back("num_experts", integer_node(sizes.experts));
      config.members.emplace_back("num_experts_per_tok", integer_node(sizes.chosen));
    }
    config.members.emplace_back("intermediate_size", integer_node(whole / 2));
    if (sizes.kv_heads > 0) config.members.emplace_back("num_key_value_heads", integer_node(sizes.kv_heads));
    return config;
  }
  if (sizes.ratio > 0 && sizes.width == 0) {
    if (sizes.kv_heads > 0 && sizes.kv_heads != sizes.heads) return std::nullopt;
    Node config = config_of(sizes, "mpt");
    config.members.emplace_back("expansion_ratio", integer_node(static_cast<std::int64_t>(sizes.ratio)));
    return config;
  }
  std::int64_t width = sizes.width;
  if (width == 0 && sizes.multiple == 0 && sizes.is_reference) sizes.multiple = 256;  // its default
  if (width == 0 && sizes.multiple > 0) {
    // Two thirds of four times the width, so that a gate costs nothing, then rounded (Llama's reference code).
    const std::int64_t two_thirds = 2 * 4 * sizes.hidden / 3;
    width = static_cast<std::int64_t>(sizes.multiplier * static_cast<double>(two_thirds));
    width = (width + sizes.multiple - 1) / sizes.multiple * sizes.multiple;
  }
  if (width == 0) return std::nullopt;
  Node config = config_of(sizes, sizes.is_plain ? "starcoder2" : "llama");
  config.members.emplace_back("intermediate_size", integer_node(width));
  const std::int64_t kv_heads = sizes.kv_heads > 0 ? sizes.kv_heads : sizes.is_plain ? sizes.heads : 0;
  if (kv_heads > 0) config.members.emplace_back("num_key_value_heads", integer_node(kv_heads));
  return config;
}

}  // namespace plimsoll::job
