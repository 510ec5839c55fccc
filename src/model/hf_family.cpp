// SPDX-License-Identifier: Apache-2.0
#include "model/hf_family.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

// All names under which a file announces its MTP layers (facts models.md, trap 7).
std::int64_t mtp_layers(Fields& in) {
  constexpr std::string_view kKeys = "num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers|num_mtp_modules";
  const std::int64_t layers = in.size_or(kKeys, limits::kMtpLayers, 0, 0);
  return in.flag("use_mtp", true) ? layers : 0;
}

// The first of several keys that the file has, for keys that may disagree: Gemma files state hidden_act
// "gelu" beside the hidden_activation that counts.
std::string_view first_present(Fields& in, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys)
    if (in.has(key)) return key;
  return keys.front();
}

// A list of one word per layer, each `yes` or `no`.
std::optional<std::vector<bool>> words_per_layer(Fields& in, std::string_view key, std::int64_t depth,
                                                 std::string_view yes, std::string_view no) {
  const std::optional<std::vector<std::string>> words = in.texts(key);
  if (!words) return std::nullopt;
  if (static_cast<std::int64_t>(words->size()) != depth) {
    in.fail(fmt::format("{} has {} entries; wanted one for each of the {} layers", key, words->size(), depth));
    return std::nullopt;
  }
  std::vector<bool> result;
  for (const std::string& word : *words) {
    if (word != yes && word != no) {
      in.fail(fmt::format("{} holds '{}'; wanted {} or {}", key, word.substr(0, 40), yes, no));
      return std::nullopt;
    }
    result.push_back(word == yes);
  }
  return result;
}

LayerRule listed_or(std::optional<std::vector<bool>> listed, LayerRule rule) {
  if (!listed) return rule;
  return [list = *std::move(listed)](std::int64_t depth) { return list[static_cast<std::size_t>(depth)]; };
}

}  // namespace

std::int64_t divided_head_dim(Fields& in, std::int64_t hidden, std::int64_t heads) {
  if (in.ok() && hidden % heads != 0)
    in.fail(fmt::format("the hidden size {} is not a multiple of {} attention heads, and there is no head_dim", hidden,
                        heads),
            "state head_dim, or correct one of the two");
  return std::max<std::int64_t>(1, hidden / heads);
}

Activation activation(Fields& in, std::string_view key, std::string_view fallback) {
  struct Named {
    std::string_view name;
    Activation value;
  };
  // gelu_fast is, like gelu_new, a chain of Python operations; the others are one kernel.
  constexpr Named kNames[] = {
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"gelu", Activation::kGelu},
      {"gelu_pytorch_tanh", Activation::kGelu},
      {"gelu_tanh", Activation::kGelu},
      {"gelu_python", Activation::kGelu},
      {"quick_gelu", Activation::kQuickGelu},
      {"gelu_new", Activation::kGeluNew},
      {"gelu_fast", Activation::kGeluNew},
      {"relu", Activation::kRelu},
      {"relu2", Activation::kSquaredRelu},
      {"xielu", Activation::kXielu},
  };
  const std::string name = in.text(key, fallback);
  std::vector<std::string> known;
  for (const Named& named : kNames) {
    if (named.name == name) return named.value;
    known.emplace_back(named.name);
  }
  in.fail(fmt::format("{} is '{}'; wanted one of {}", key, name.substr(0, 40), join(known, ", ")));
  return Activation::kSilu;
}

void set_attention_bias(Layer& layer, bool bias) {
  layer.attention.qkv_bias = bias;
  layer.attention.out_bias = bias;
}

void set_experts(FeedForward& ffn, std::int64_t experts, std::int64_t per_token, std::int64_t width) {
  ffn.width = 0;
  ffn.experts = experts;
  ffn.experts_per_token = per_token;
  ffn.expert_width = width;
}

Draft start(Fields& in, const Defaults& defaults) {
  Draft draft;
  Architecture& model = draft.model;
  Attention& attention = draft.layer.attention;
  model.hidden = in.size("hidden_size|n_embd|n_embed|d_model", limits::kHidden);
  draft.depth = in.size("num_hidden_layers|n_layer|n_layers", limits::kDepth);
  constexpr std::string_view kHeadKeys = "num_attention_heads|n_head|n_heads";
  attention.heads =
      defaults.heads > 0 ? in.size_or(kHeadKeys, limits::kHeads, defaults.heads) : in.size(kHeadKeys, limits::kHeads);
  const std::int64_t kv_heads = defaults.kv_heads > 0 ? defaults.kv_heads : attention.heads;
  attention.kv_heads = in.size_or("num_key_value_heads", limits::kHeads, kv_heads);
  if (in.ok() && attention.heads % attention.kv_heads != 0)
    in.fail(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}{}", attention.heads,
                        attention.kv_heads, in.has("num_key_value_heads") ? "" : " (the default of this family)"));
  if (in.has("head_dim"))
    attention.head_dim = in.size_or("head_dim", limits::kHeadDim, 1);  // a default among them is no news
  else
    attention.head_dim =
        defaults.head_dim > 0 ? defaults.head_dim : divided_head_dim(in, model.hidden, attention.heads);
  model.vocab = defaults.vocab > 0 ? in.size_or("vocab_size", limits::kVocab, defaults.vocab)
                                   : in.size("vocab_size", limits::kVocab);
  model.tied_embeddings = in.flag_here_or_outside("tie_word_embeddings", defaults.tied);
  constexpr std::string_view kActivationKeys[] = {"hidden_activation", "hidden_act", "activation_function"};
  draft.layer.ffn.activation = activation(in, first_present(in, kActivationKeys), defaults.activation);
  model.attention_dropout = in.probability("attention_dropout", 0);
  constexpr std::string_view kLengthKeys[] = {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"};
  model.max_positions = in.size_or(first_present(in, kLengthKeys), limits::kPositions, 0);
  model.mtp_layers = mtp_layers(in);
  return draft;
}

Architecture stack(Draft draft, const ShapeLayer& shape) {
  Architecture model = std::move(draft.model);
  for (std::int64_t depth = 0; depth < draft.depth; ++depth) {
    Layer layer = draft.layer;
    if (shape) shape(depth, layer);
    const auto same = std::find(model.kinds.begin(), model.kinds.end(), layer);
    model.layers.push_back(static_cast<std::uint8_t>(same - model.kinds.begin()));
    if (same == model.kinds.end()) model.kinds.push_back(layer);
  }
  return model;
}

LayerRule full_attention_layers(Fields& in, std::int64_t depth, std::string_view other, LayerRule rule) {
  return listed_or(words_per_layer(in, "layer_types", depth, "full_attention", other), std::move(rule));
}

LayerRule moe_layers(Fields& in, std::int64_t depth, LayerRule rule) {
  return listed_or(words_per_layer(in, "mlp_layer_types", depth, "sparse", "dense"), std::move(rule));
}

}  // namespace plimsoll::model
