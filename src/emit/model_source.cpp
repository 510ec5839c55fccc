// SPDX-License-Identifier: Apache-2.0
#include "emit/model_source.h"

#include <algorithm>

#include "job/keys.h"
#include "job/value.h"
#include "model/catalog.h"
#include "model/hf_config.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::text_node;
using model::Architecture;

namespace {

bool same(const Architecture& a, const Architecture& b) {
  return model_difference(a, b, true).empty() && a.max_positions == b.max_positions;
}

// Keys of the second model that the first does not have or has with another value.
std::vector<Setting> changed_keys(const Architecture& from, const Architecture& to, std::int64_t seq_length) {
  std::vector<Setting> before = model_settings(from, seq_length);
  before.push_back({"vocab_size", integer_node(from.vocab)});
  std::vector<Setting> after = model_settings(to, seq_length);
  after.push_back({"vocab_size", integer_node(to.vocab)});
  std::erase_if(after, [&before](const Setting& setting) {
    return std::any_of(before.begin(), before.end(), [&setting](const Setting& old) {
      return old.key == setting.key && document::to_text(old.value) == document::to_text(setting.value);
    });
  });
  return after;
}

const char* activation_name(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSilu:
      return "silu";
    case model::Activation::kGelu:
      return "gelu_pytorch_tanh";
    case model::Activation::kGeluNew:
      return "gelu_new";
    case model::Activation::kRelu:
      return "relu";
    case model::Activation::kSquaredRelu:
      return "relu2";
    case model::Activation::kQuickGelu:
      return "quick_gelu";
    case model::Activation::kGeluFast:
    case model::Activation::kBloomGelu:
      return "gelu_fast";
    case model::Activation::kXielu:
      return "xielu";
  }
  return "silu";
}

// Keys of the llama-like families and of Mixtral's and Qwen's experts; a family that has others does not read
// back as this model and gives null.
Node hub_config(const Architecture& model) {
  if (model.layers.empty()) return {};
  const model::Layer& layer = model.layer(0);
  const model::Attention& attention = layer.attention;
  const model::FeedForward& ffn = layer.ffn;
  Node config;
  config.kind = Node::Kind::kObject;
  const auto put = [&config](const char* key, Node value) { config.members.emplace_back(key, std::move(value)); };
  put("model_type", text_node(model.model_type));
  put("hidden_size", integer_node(model.hidden));
  put("intermediate_size", integer_node(ffn.is_moe() ? ffn.expert_width : ffn.width));
  put("num_hidden_layers", integer_node(model.depth()));
  put("num_attention_heads", integer_node(attention.heads));
  put("num_key_value_heads", integer_node(attention.kv_heads));
  put("head_dim", integer_node(attention.head_dim));
  put("vocab_size", integer_node(model.vocab));
  if (model.max_positions > 0) put("max_position_embeddings", integer_node(model.max_positions));
  put("hidden_act", text_node(activation_name(ffn.activation)));
  put("tie_word_embeddings", bool_node(model.tied_embeddings));
  put("attention_bias", bool_node(attention.qkv_bias));
  put("mlp_bias", bool_node(ffn.bias));
  put("attention_dropout", job::real_node(model.attention_dropout));
  if (model.rope_base > 0) put("rope_theta", integer_node(model.rope_base));
  if (model.norm_epsilon > 0) put("rms_norm_eps", job::real_node(model.norm_epsilon));
  if (attention.sliding_window > 0) put("sliding_window", integer_node(attention.sliding_window));
  if (ffn.is_moe()) {
    put("num_local_experts", integer_node(ffn.experts));
    put("num_experts", integer_node(ffn.experts));
    put("num_experts_per_tok", integer_node(ffn.experts_per_token));
    put("moe_intermediate_size", integer_node(ffn.expert_width));
    if (ffn.shared_width > 0) put("shared_expert_intermediate_size", integer_node(ffn.shared_width));
  }
  const auto read = model::read_hf_config(config);
  return read && model_difference(model, *read, true).empty() ? config : Node{};
}

}  // namespace

ModelSource model_source(const job::Job& job) {
  ModelSource source;
  const auto use = [&](const std::string& name, Architecture base) {
    source.name = name;
    source.base = std::move(base);
    source.changes = changed_keys(source.base, job.model, job.batch.seq_length);
  };
  const Architecture& wanted = job.base_model.layers.empty() ? job.model : job.base_model;
  if (auto named = model::find_model(wanted.name); named && same(*named, wanted)) use(named->name, *named);
  for (const model::CatalogEntry& entry : model::catalog_entries()) {
    if (source.name.empty())
      if (auto found = model::find_model(entry.name); found && same(*found, wanted)) use(entry.name, *found);
    if (entry.name != source.name) continue;
    for (const std::string& alias : entry.aliases)
      if (source.hub.empty() && alias.find('/') != std::string::npos) source.hub = alias;
  }
  source.config = hub_config(job.model);
  return source;
}

}  // namespace plimsoll::emit
