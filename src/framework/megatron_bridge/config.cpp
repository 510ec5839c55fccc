// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge's configuration. Sections are read in the order in which Bridge lets one overrule
// another: communication overlap and mixed precision rewrite what model, optimizer and ddp say.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/tp_overlap.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::string_view kRead[] = {"model", "optimizer", "ddp", "train", "dist", "comm_overlap", "mixed_precision"};
constexpr std::string_view kIgnored[] = {"checkpoint",          "ft",
                                         "inprocess_restart",   "logger",
                                         "nvrx_straggler",      "optimizer_config_override_provider",
                                         "profiling",           "rng",
                                         "rerun_state_machine", "scheduler",
                                         "straggler",           "tensor_inspect",
                                         "tokenizer",           "validation"};

template <std::size_t kCount>
bool contains(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Keys of sections that memory does not depend on, but rules do.
constexpr std::string_view kDatasetKeys[] = {"enable_offline_packing", "enable_in_batch_packing", "pad_to_max_length",
                                             "packing_buffer_size", "dataloader_type"};
constexpr std::string_view kPackingKeys[] = {"pad_cu_seqlens", "packed_sequence_size"};
constexpr std::string_view kCheckpointKeys[] = {"ckpt_format", "async_save", "pretrained_checkpoint",
                                                "save",        "load",       "save_params_interval"};
constexpr std::string_view kRngKeys[] = {"te_rng_tracker"};
constexpr std::string_view kRerunKeys[] = {"check_for_nan_in_loss"};
constexpr std::string_view kValidationKeys[] = {"eval_global_batch_size"};

template <std::size_t kCount>
void take(const Node& table, std::string_view section, const std::string_view (&keys)[kCount], Draft& draft) {
  if (!table.is_object()) return;
  for (const std::string_view key : keys)
    if (const Node* value = table.find(key); value != nullptr && !value->is_null())
      draft.assign(std::string(key), *value, fmt::format("{}.{}", section, key));
}

void take_checked_keys(const Node& root, Draft& draft) {
  if (const Node* table = root.find("checkpoint"); table != nullptr) take(*table, "checkpoint", kCheckpointKeys, draft);
  if (const Node* table = root.find("rng"); table != nullptr) take(*table, "rng", kRngKeys, draft);
  if (const Node* table = root.find("rerun_state_machine"); table != nullptr)
    take(*table, "rerun_state_machine", kRerunKeys, draft);
  if (const Node* table = root.find("validation"); table != nullptr) take(*table, "validation", kValidationKeys, draft);
  const Node* tokenizer = root.find("tokenizer");
  const Node* rows = tokenizer == nullptr ? nullptr : tokenizer->find("vocab_size");
  if (rows != nullptr && rows->is_integer()) draft.assign("tokenizer_vocab_size", *rows, "tokenizer.vocab_size");
  const Node* optimizer = root.find("optimizer");
  const Node* half = optimizer == nullptr ? nullptr : optimizer->find("bf16");
  if (half != nullptr && half->is_bool()) draft.assign("optimizer_bf16", *half, "optimizer.bf16");
}

// Objects that Bridge writes as {_target_: path, _args_: [...]}: an enumerator, a dtype, a function.
Node plain(const std::string& key, const Node& value) {
  if (!value.is_object()) return value;
  const Node* target = value.find("_target_");
  if (target == nullptr || !target->is_string()) return value;
  const Node* args = value.find("_args_");
  if (args == nullptr || !args->is_array() || args->items.size() != 1) return text_node(target->text);
  if (key == "attention_backend" && args->items.front().is_integer()) {
    constexpr const char* kBackends[] = {"flash", "fused", "unfused", "local", "auto"};
    const std::int64_t number = args->items.front().integer;
    if (number >= 1 && number <= 5) return text_node(kBackends[number - 1]);
  }
  return args->items.front();
}

// The name under which all sections agree on a field, so that a later section replaces an earlier one.
std::string shared_name(const std::string& key) {
  const Alias* alias = is_key(key) ? nullptr : find_alias(Framework::kMegatronBridge, key);
  return alias != nullptr && alias->kind == AliasKind::kKey ? std::string(alias->target) : key;
}

Status read_section(const std::string& section, const Node& table, Draft& draft) {
  if (table.is_null()) return {};
  if (!table.is_object()) return bad_input(fmt::format("{}: found {}, wanted a table", section, shown(table)));
  for (const auto& [key, raw] : table.members) {
    if (key.empty() || key.front() == '_') continue;  // _target_, _partial_, ...
    const Node value = plain(key, raw);
    if (value.is_null() && key != "q_lora_rank") continue;  // Bridge's "not set"
    if (key == "hf_model_id" && value.is_string()) {
      if (auto model = model::find_model(value.text)) draft.model = *std::move(model);
      continue;
    }
    draft.assign(shared_name(key), value, section + "." + key);
  }
  return {};
}

// A recipe by name or by the function that makes it, with fields that are set on it afterwards.
Status read_mixed_precision(const Node& value, Draft& draft) {
  if (value.is_object()) {
    const Node* target = value.find("_target_");
    const Node* args = value.find("_args_");
    const bool is_function =
        target != nullptr && target->is_string() && target->text.find("MixedPrecisionConfig") == std::string::npos;
    if (is_function) {
      // get_mixed_precision_config("bf16_mixed") names the recipe in its argument.
      const bool is_lookup =
          args != nullptr && args->is_array() && !args->items.empty() && args->items.front().is_string();
      const std::string name = is_lookup ? args->items.front().text : target->text;
      draft.assign("recipe", text_node(std::string(split(name, '.').back())), "mixed_precision");
    }
    return read_section("mixed_precision", value, draft);
  }
  if (!value.is_null()) draft.assign("recipe", value, "mixed_precision");
  return {};
}

// The sequence length stands in both sections and must agree (rules.md R010).
Status read_dataset(const Node& table, Draft& draft) {
  if (!table.is_object()) return {};
  for (const std::string_view key : {"seq_length", "sequence_length"}) {
    const Node* length = table.find(key);
    if (length == nullptr || length->is_null()) continue;
    draft.assign("dataset_seq_length", *length, fmt::format("dataset.{}", key));
    const auto model = std::find_if(draft.assignments.begin(), draft.assignments.end(),
                                    [](const Assignment& other) { return other.key == "seq_length"; });
    if (model == draft.assignments.end()) {
      draft.assign("seq_length", *length, fmt::format("dataset.{}", key));
    } else if (!same_value(model->value, *length)) {
      // A second assignment with a problem: the model's own stays for callers that collect problems.
      Assignment contradiction = *model;
      contradiction.problem = fmt::format(
          "Please ensure sequence length configuration in model config and dataset config match: {} is "
          "{}, dataset.{} is {}",
          model->where, shown(model->value), key, shown(*length));
      draft.assignments.push_back(std::move(contradiction));
    }
  }
  take(table, "dataset", kDatasetKeys, draft);
  if (const Node* target = table.find("_target_"); target != nullptr && target->is_string())
    for (const std::string_view kind : {"Finetuning", "SFT"})
      if (target->text.find(kind) != std::string::npos)
        draft.assign("fine_tuning", bool_node(true), "dataset._target_");
  if (const Node* specs = table.find("offline_packing_specs"); specs != nullptr && !specs->is_null()) {
    draft.assign("offline_packing_specs", text_node("given"), "dataset.offline_packing_specs");
    take(*specs, "dataset.offline_packing_specs", kPackingKeys, draft);
  }
  // Its name before offline_packing_specs.
  if (const Node* specs = table.find("packed_sequence_specs"); specs != nullptr && !specs->is_null()) {
    draft.assign("packed_sequence_specs", text_node("given"), "dataset.packed_sequence_specs");
    draft.assign("packed_sequences", bool_node(true), "dataset.packed_sequence_specs");
    take(*specs, "dataset.packed_sequence_specs", kPackingKeys, draft);
  }
  for (const std::string_view key : {"enable_offline_packing", "enable_in_batch_packing"})
    if (const Node* packs = table.find(key); packs != nullptr && packs->is_bool() && packs->boolean)
      draft.assign("packed_sequences", bool_node(true), fmt::format("dataset.{}", key));
  return {};
}

void read_overlap(const Node& root, Draft& draft) {
  const Node* overlap = root.find("comm_overlap");
  const Node* products = overlap == nullptr ? nullptr : overlap->find("tp_comm_overlap_cfg");
  if (products != nullptr && products->is_object())
    read_overlap_products(*products, "comm_overlap.tp_comm_overlap_cfg", draft);
}

// Bridge's LoRA and DoRA: rank 32 on all four linears of a layer, adapters in the model's dtype.
Status read_peft(const Node& value, Draft& draft) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    draft.assign("peft", value, "peft");
  } else if (value.is_object()) {
    const Node* target = value.find("_target_");
    const bool named = target != nullptr && target->is_string();
    if (!named) draft.warnings.emplace_back("peft: does not say which adapter; LoRA is assumed");
    const bool dora = named && target->text.find("DoRA") != std::string::npos;
    draft.assign("peft", text_node(dora ? "dora" : "lora"), "peft");
    PLIMSOLL_TRY_STATUS(read_section("peft", value, draft));
  } else {
    return bad_input(fmt::format("peft: found {}, wanted a table or a name", shown(value)));
  }
  const auto unless_given = [&draft](const std::string& key, Node otherwise) {
    const bool given = std::any_of(draft.assignments.begin(), draft.assignments.end(),
                                   [&key](const Assignment& a) { return a.key == key; });
    if (!given) draft.assign(key, std::move(otherwise), "peft", true);
  };
  unless_given("lora_rank", integer_node(32));
  unless_given("adapter_dtype", text_node("bf16"));
  unless_given("lora_target_modules", text_node("linear_qkv linear_proj linear_fc1 linear_fc2"));
  return {};
}

// Either of the two switches turns the distributed optimizer on (rules.md, silent corrections).
void join_distributed_optimizer(const Node& root, Draft& draft) {
  for (const std::string_view section : {"optimizer", "ddp"}) {
    const Node* table = root.find(section);
    const Node* on = table == nullptr ? nullptr : table->find("use_distributed_optimizer");
    if (on != nullptr && on->is_bool())  // rules.md R233
      draft.assign(fmt::format("{}_use_distributed_optimizer", section), *on,
                   fmt::format("{}.use_distributed_optimizer", section));
    if (on != nullptr && on->is_bool() && on->boolean)
      draft.assign("use_distributed_optimizer", *on, fmt::format("{}.use_distributed_optimizer", section));
  }
}

}  // namespace

// What HybridModelProvider (once MambaModelProvider) starts from where Megatron's flags start from something else
// (models/hybrid/hybrid_provider.py). A model that is named has it all.
void add_hybrid_defaults(const Node& root, Draft& draft) {
  const Node* model = root.find("model");
  const Node* target = is_table(model) ? model->find("_target_") : nullptr;
  if (target == nullptr || !target->is_string()) return;
  if (!target->text.ends_with(".HybridModelProvider") && !target->text.ends_with(".MambaModelProvider")) return;
  const std::pair<const char*, Node> kDefaults[] = {{"normalization", text_node("RMSNorm")},
                                                    {"add_bias_linear", bool_node(false)},
                                                    {"position_embedding_type", text_node("none")},
                                                    {"share_embeddings_and_output_weights", bool_node(false)},
                                                    {"gated_linear_unit", bool_node(false)},
                                                    {"hidden_dropout", real_node(0)},
                                                    {"attention_dropout", real_node(0)}};
  for (const auto& [key, value] : kDefaults) {
    const bool given = std::any_of(draft.assignments.begin(), draft.assignments.end(),
                                   [name = key](const Assignment& a) { return a.key == name; });
    if (!given) draft.assign(key, value, "HybridModelProvider", true);
  }
}

Status read_bridge_tree(const Node& root, Draft& draft) {
  for (const auto& [name, value] : root.members) {
    if (name.empty() || name.front() == '_' || contains(kRead, name) || contains(kIgnored, name) || name == "dataset" ||
        name == "peft" || name == "env_vars")
      continue;
    std::vector<std::string> known(std::begin(kRead), std::end(kRead));
    known.insert(known.end(), {"dataset", "peft", "checkpoint", "scheduler", "logger", "tokenizer", "env_vars"});
    const std::string near = nearest(name, known);
    if (!near.empty())
      return bad_input(fmt::format("unknown section '{}' of a Megatron-Bridge configuration", name),
                       fmt::format("did you mean '{}'?", near));
    draft.assign(name, value);
  }
  for (const std::string_view section : kRead) {
    const Node* table = root.find(section);
    if (table == nullptr) continue;
    PLIMSOLL_TRY_STATUS(section == "mixed_precision" ? read_mixed_precision(*table, draft)
                                                     : read_section(std::string(section), *table, draft));
  }
  add_hybrid_defaults(root, draft);
  join_distributed_optimizer(root, draft);
  take_checked_keys(root, draft);
  if (const Node* dataset = root.find("dataset"); dataset != nullptr)
    PLIMSOLL_TRY_STATUS(read_dataset(*dataset, draft));
  read_overlap(root, draft);
  if (const Node* peft = root.find("peft"); peft != nullptr) PLIMSOLL_TRY_STATUS(read_peft(*peft, draft));
  if (const Node* variables = root.find("env_vars"); variables != nullptr && variables->is_object()) {
    for (const auto& [name, value] : variables->members) {
      PLIMSOLL_TRY(text, to_word(value));
      draft.environment[name] = std::move(text);
    }
  }
  return {};
}

Result<Draft> read_bridge_config(const InputFile& file, const ReadOptions& options) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kBridgeConfig;
  draft.vocabulary = Framework::kMegatronBridge;
  draft.framework = Framework::kMegatronBridge;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of sections (model, train, ...)");
  if (!options.config.empty()) {  // overrides of a recipe
    PLIMSOLL_TRY(recipe, bridge_recipe(options.config, draft));
    lay_over(root, recipe);
    root = std::move(recipe);
  }
  PLIMSOLL_TRY_STATUS(read_bridge_tree(root, draft));
  return draft;
}

bool is_bridge(const Node& root) {
  const Node* model = root.find("model");
  if (const Node* target = is_table(model) ? model->find("_target_") : nullptr; target != nullptr)
    return !target->is_string() || target->text.starts_with("megatron.");
  return has_any(root, {"ddp", "comm_overlap", "mixed_precision", "rerun_state_machine", "nvrx_straggler"}) ||
         (is_table(root.find("train")) && !root.has("framework") && !root.has("datamodule")) ||
         (is_table(root.find("dataset")) && is_table(model));
}

}  // namespace plimsoll::job
