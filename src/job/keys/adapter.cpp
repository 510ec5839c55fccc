// SPDX-License-Identifier: Apache-2.0
// Keys of adapters: PEFT's, and what the frozen model under them is stored in (facts other-frameworks-memory.md 3.1).
#include <algorithm>

#include <fmt/format.h>

#include "base/name_pattern.h"
#include "base/text.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

constexpr Range kLayerIndex{0, 100'000};
constexpr Range kRank{1, 1 << 20};
constexpr std::size_t kMostItems = 100'000;  // of a list; no model has more layers or words worth naming

// "[1, 2]", "1 2" and "1,2" of a flag are lists, too.
Result<std::vector<Node>> items_of(const Node& value) {
  if (value.is_array()) return value.items;
  if (!value.is_string()) return std::vector<Node>{value};
  PLIMSOLL_TRY(words, to_words(value));
  std::vector<Node> items;
  for (std::string& word : words) items.push_back(text_node(std::move(word)));
  return items;
}

Status set_layers(Job& job, const Node& value) {
  job.adapter.layers.clear();
  if (value.is_null()) return {};
  PLIMSOLL_TRY(items, items_of(value));
  if (items.size() > kMostItems) return bad_input(fmt::format("wanted at most {} layers", kMostItems));
  for (const Node& item : items) {
    PLIMSOLL_TRY(layer, to_integer(item, kLayerIndex));
    job.adapter.layers.push_back(layer);
  }
  std::sort(job.adapter.layers.begin(), job.adapter.layers.end());
  return {};
}

Status set_rank_of(Job& job, const std::string& name, const Node& rank) {
  PLIMSOLL_TRY_STATUS(check_pattern(name));
  PLIMSOLL_TRY(number, to_integer(rank, kRank));
  job.adapter.ranks[name] = number;
  return {};
}

// {"q_proj": 16} of a file, "q_proj=16 down_proj=4" of a flag.
Status set_ranks(Job& job, const Node& value) {
  job.adapter.ranks.clear();
  if (value.is_null()) return {};
  if (value.is_object()) {
    for (const auto& [name, rank] : value.members) PLIMSOLL_TRY_STATUS(set_rank_of(job, name, rank));
    return {};
  }
  PLIMSOLL_TRY(words, to_words(value));
  for (const std::string& word : words) {
    const std::size_t equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return bad_input(fmt::format("found {}, wanted a table of names and ranks, or q_proj=16", shown(value)));
    PLIMSOLL_TRY_STATUS(set_rank_of(job, word.substr(0, equals), text_node(word.substr(equals + 1))));
  }
  return {};
}

// A list of token ids, or a table with such a list for each module; a number says how many there are.
Status set_trained_tokens(Job& job, const Node& value) {
  constexpr Range kTokens{0, 1 << 30};
  job.adapter.trained_tokens = 0;
  if (value.is_null()) return {};
  if (value.is_integer() ||
      (value.is_string() && !value.text.empty() && value.text.find_first_of(", []") == std::string::npos)) {
    PLIMSOLL_TRY(count, to_integer(value, kTokens));
    job.adapter.trained_tokens = count;
    return {};
  }
  Node list = value;
  if (value.is_object()) {
    if (value.members.empty()) return {};
    if (value.members.size() > 1)
      return bad_input(
          fmt::format("{} modules are named; rows of one, the embedding, are modelled", value.members.size()));
    const Node inner = value.members.front().second;
    list = inner;
  }
  PLIMSOLL_TRY(items, items_of(list));
  if (items.size() > kMostItems)
    return bad_input(
        fmt::format("wanted at most {} tokens; train the whole embedding with modules_to_save", kMostItems));
  for (const Node& item : items) PLIMSOLL_TRY_STATUS(to_integer(item, kTokens));
  job.adapter.trained_tokens = static_cast<std::int64_t>(items.size());
  return {};
}

// PEFT's switch for a bias of the second matrix. Programs with one argument for both give it PEFT's words for `bias`.
Status set_own_bias(Job& job, const Node& value) {
  if (value.is_string())
    if (const auto bias = from_name<AdapterBias>(value.text)) {
      job.adapter.bias = *bias;
      job.adapter.own_bias = false;
      return {};
    }
  PLIMSOLL_TRY(on, to_bool(value));
  job.adapter.own_bias = on;
  return {};
}

const Key kAdapterKeys[] = {
    {"peft", kBoth, PLIMSOLL_FIELD(adapter.kind), "adapters are trained on a frozen model"},
    {"lora_rank", kBoth, PLIMSOLL_FIELD(adapter.rank), "rank of the adapters", kRank},
    {"lora_dropout", kBoth, PLIMSOLL_FIELD(adapter.dropout), "dropout of adapter inputs", kFraction},
    {"lora_target_modules", kBoth, PLIMSOLL_FIELD(adapter.targets), "q_proj, v_proj, ... or all-linear"},
    {"exclude_modules", kBoth, PLIMSOLL_FIELD(adapter.excluded), "targets that have no adapter after all"},
    {"layers_to_transform", kBoth, Custom{set_layers, "integer or list"}, "layers, from 0, that have adapters; all"},
    {"rank_pattern", kBoth, Custom{set_ranks, "table of names and ranks"}, "ranks of targets that have their own"},
    {"modules_to_save", kBoth, PLIMSOLL_FIELD(adapter.saved_modules),
     "modules that are trained whole: a copy stands beside the frozen one (embed_tokens, lm_head, norm)"},
    {"ensure_weight_tying", kBoth, PLIMSOLL_FIELD(adapter.ties_saved),
     "tied embedding and head stay tied in what modules_to_save trains"},
    {"trainable_token_indices", kBoth, Custom{set_trained_tokens, "integer or list"},
     "rows of the embedding that are trained: their ids, or how many"},
    {"adapter_bias", kBoth, PLIMSOLL_FIELD(adapter.bias), "biases of the frozen model that are trained"},
    {"lora_bias", kBoth, Custom{set_own_bias, "boolean"}, "adapters have a bias of their own"},
    {"adapter_dtype", kBoth, PLIMSOLL_FIELD(adapter.dtype), "dtype of adapter weights"},
    {"load_in_4bit", kBoth, PLIMSOLL_FIELD(adapter.quantized_base), "the frozen model is 4-bit (QLoRA)"},
    {"bnb_4bit_use_double_quant", kBytes, PLIMSOLL_FIELD(adapter.double_quant), "its scales are quantised too"},
    {"load_in_8bit", kBoth, PLIMSOLL_FIELD(adapter.eight_bit_base), "the frozen model is 8-bit (LLM.int8)"},
    {"prepare_model_for_kbit_training", kBoth, PLIMSOLL_FIELD(adapter.prepared_for_kbit),
     "norms and embedding were cast to fp32"},
    {"enable_input_require_grads", kNeither, PLIMSOLL_FIELD(adapter.inputs_require_grad),
     "the embedding output needs a gradient; counted alike with and without"},
    {"sequence_parallel_input_regather", kBytes, PLIMSOLL_FIELD(adapter.regather_input),
     "Bridge: adapters gather their input again"},
};

}  // namespace

std::span<const Key> adapter_key_rows() { return kAdapterKeys; }

}  // namespace plimsoll::job
