// SPDX-License-Identifier: Apache-2.0
// Primus's experiments (modules.pre_trainer, post_trainer): a model by the name of its file and overrides of the
// arguments of Megatron-LM, torchtitan or a recipe of Megatron-Bridge. What Primus itself sets comes first.
#include <set>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/flags.h"
#include "framework/megatron_lm/tokenizer.h"
#include "framework/torchtitan/torchtitan.h"
#include "framework/transformers/include.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kPrimusRows[] = {
    {"use_turbo_*", kNotModelled, "Primus Turbo's kernels are counted as Megatron's"},
    {"enable_primus_turbo", kNotModelled, "Primus Turbo's kernels are counted as Megatron's"},
    {"turbo_*", kNoEffect},
    {"patch_primus_pipeline", kNotModelled, "its pipeline schedules are counted as 1F1B"},
    {"pp_algorithm", kNotModelled, "its pipeline schedules are counted as 1F1B", "1f1b"},
    {"patch_zero_bubble", kRefused, "zero-bubble schedules are not modelled"},
    {"odc_*", kNotModelled, "its gradient reduction is counted as Megatron's"},
    {"moe_use_fused_router_with_aux_score", kNoEffect},
    {"enable_zero_bubble", kRefused, "zero-bubble schedules are not modelled"},
    {"recompute_layer_ids", kRefused, "recomputation of listed layers is not modelled"},
    {"multi_latent_attention", kKey, "multi_latent_attention"},
    {"fp8_reduce_amax", kNoEffect},
    {"lora", kNoEffect},  // a table that is read before the keys
    {"patch_moe_overlap", kNotModelled, "its overlap of expert communication is counted as Megatron's"},
    {"use_flash_attn", kNoEffect},
    {"enable_packed_sequences", kKey, "packed_sequences"},
    {"no_fp8_weight_transpose_cache", kKey, "disable_parameter_transpose_cache"},
};

constexpr std::string_view kPrimusWithoutEffect = R"(
    stderr_sink_level file_sink_level sink_level log_avg_* auto_continue_train disable_last_saving disable_wandb disable_tensorboard
    disable_compile_dependencies mock_data mlflow_* disable_mlflow dump_pp_data torch_profiler_* use_rocm_mem_info*
    decoder_pipeline_manual_split_list disable_profiler_activity_cpu profile_ranks enable_turbo_attention_float8 trainable
    cross_entropy_fusion_of moe_router_force_load_balancing_of te_* manual_gc_of dist_ckpt_format num_workers_of warmup_* seed_of
    generate_sidecar use_deprecated_* attn_warmup pp_warmup sync_free_moe_stage turbo_sync_free_moe_stage check_* pretrain_*
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kPrimusRows, kPrimusWithoutEffect);
  return table;
}

// "${NAME:default}" is its default where the environment says nothing; also inside a longer text.
Node with_default(const Node& value) {
  if (!value.is_string() || value.text.find("${") == std::string::npos) return value;
  std::string filled;
  for (std::size_t at = 0; at < value.text.size();) {
    const std::size_t start = std::min(value.text.find("${", at), value.text.size());
    filled += value.text.substr(at, start - at);
    if (start == value.text.size()) break;
    const std::size_t end = value.text.find('}', start);
    const std::size_t colon = value.text.find(':', start);
    if (end == std::string::npos || colon > end) return value;
    filled += value.text.substr(colon + 1, end - colon - 1);
    at = end + 1;
  }
  return document::parse_scalar(filled);
}

Node with_defaults(const Node& table) {
  Node filled = table;
  for (auto& member : filled.members)
    member.second = member.second.is_object() ? with_defaults(member.second) : with_default(member.second);
  return filled;
}

std::string word_at(const Node& table, std::string_view key) {
  const Node* value = table.find(key);
  if (value == nullptr) return {};
  const Node plain = with_default(*value);
  return plain.is_string() ? plain.text : std::string{};
}

Node empty_table() {
  Node node;
  node.kind = Node::Kind::kObject;
  return node;
}

// A file of Primus with those that it extends below it; an empty table where it is not here.
Node extended_file(const std::string& name, const std::string& folder, int depth) {
  constexpr int kMaxDepth = 8;
  Node whole = empty_table();
  const auto path = locate(name, folder);
  if (!path || depth > kMaxDepth) return whole;
  const auto text = read_named_file(*path);
  const auto root = text ? parse_json_or_yaml(*text) : Result<Node>(tl::make_unexpected(text.error()));
  if (!root || !root->is_object()) return whole;
  for (const std::string_view word : {"extends", "bases"})
    if (const Node* below = root->find(word); below != nullptr)
      for (const Node& item : below->items)
        if (item.is_string()) lay_over(extended_file(item.text, parent_folder(*path), depth + 1), whole);
  lay_over(with_defaults(*root), whole);
  std::erase_if(whole.members, [](const auto& member) { return member.first == "extends" || member.first == "bases"; });
  return whole;
}

// What primus/configs/modules/megatron/pre_trainer.yaml sets where it is not beside the file.
void assign_megatron_defaults(Draft& draft) {
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Node>>{{"bf16", bool_node(true)},
                                                           {"use_distributed_optimizer", bool_node(true)},
                                                           {"micro_batch_size", integer_node(2)},
                                                           {"global_batch_size", integer_node(16)},
                                                           {"seq_length", integer_node(1024)},
                                                           {"sequence_parallel", bool_node(true)}})
    draft.assign(key, value, "Primus's default", true);
}

void assign_overrides(const Node& overrides, Draft& draft) {
  for (const auto& [key, value] : overrides.members) {
    if (value.is_null()) continue;
    if (value.is_string() && value.text.find("${") != std::string::npos) {
      const Alias* alias = find_alias(draft.names, key);
      if (alias == nullptr) alias = find_alias(draft.vocabulary, key);
      if (alias != nullptr && alias->kind == kNoEffect) continue;
      draft.assign(key, Node{});
      draft.assignments.back().problem = fmt::format("its value needs {}, which is not set", value.text);
      continue;
    }
    draft.assign(key, value);
  }
}

void read_lora(const Node& table, Draft& draft) {
  const Node* enabled = table.find("enabled");
  if (enabled == nullptr) enabled = table.find("enable");
  if (enabled != nullptr && is_off(*enabled)) return;
  draft.assign("peft", text_node("lora"), "lora");
  for (const auto& [key, target] :
       {std::pair{"rank", "lora_rank"}, std::pair{"dim", "lora_rank"}, std::pair{"dropout", "lora_dropout"},
        std::pair{"target_modules", "lora_target_modules"}})
    if (const Node* value = table.find(key); value != nullptr && !value->is_null())
      draft.assign(target, *value, fmt::format("lora.{}", key));
}

// Primus Turbo's DeepEP replaces the dispatcher (primus/backends/megatron/patches/turbo/moe_dispatcher_patches.py).
void use_turbo_dispatcher(const Node& overrides, Draft& draft) {
  for (const std::string_view key : {"enable_primus_turbo", "use_turbo_deepep"}) {
    const Node* on = overrides.find(key);
    if (on == nullptr || is_off(*on)) return;
  }
  draft.assign("moe_token_dispatcher_type", text_node("flex"), "use_turbo_deepep");
  draft.assign("moe_enable_deepep", bool_node(true), "use_turbo_deepep");
}

struct Module {
  std::string framework;
  std::string model;  // the name of its file
  std::string config;
  Node overrides = empty_table();
};

// The model's file of Primus where it is here, else its name in the catalogue.
Status read_megatron(const Module& module, Draft& draft) {
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.names = names();
  const Node shape = extended_file("primus/configs/models/megatron/" + module.model, parent_folder(draft.path), 0);
  std::string name = module.model.substr(0, module.model.rfind(".yaml"));
  if (word_at(shape, "model_type") == "mamba")
    return bad_input(
        fmt::format("{} of Primus: model_type: Mamba layers are not modelled under Megatron", module.model));
  if (shape.has("num_layers") && shape.has("hidden_size")) {
    // Stated like the overrides, which win under whatever name they have.
    std::set<std::string> overridden;
    for (const auto& [key, value] : module.overrides.members) overridden.insert(canonical_name(key));
    for (const auto& [key, value] : shape.members)
      if (!value.is_null() && !overridden.contains(canonical_name(key)))
        draft.assign(key, value, fmt::format("{} of Primus", module.model));
  } else {
    PLIMSOLL_TRY_STATUS(name_model(name, draft));
  }
  assign_megatron_defaults(draft);
  assign_overrides(module.overrides, draft);
  if (const Node* lora = module.overrides.find("lora"); lora != nullptr && lora->is_object()) {
    std::erase_if(draft.assignments, [](const Assignment& given) { return given.key == "lora"; });
    read_lora(*lora, draft);
  }
  use_turbo_dispatcher(module.overrides, draft);
  std::string tokenizer;
  for (const Assignment& given : draft.assignments)
    if (given.key == "tokenizer_model" && given.value.is_string()) tokenizer = given.value.text;
  take_vocabulary_of_tokenizer(tokenizer, draft);
  if (shape.has("num_layers")) add_parser_defaults(draft);
  settle_megatron(draft);
  return {};
}

// torchtitan's sections under `overrides`, over primus/configs/modules/torchtitan/pre_trainer.yaml.
Status read_torchtitan(const Module& module, Draft& draft) {
  Node root = empty_table();
  for (const auto& [path, value] :
       std::initializer_list<std::pair<const char*, Node>>{{"training.local_batch_size", integer_node(8)},
                                                           {"training.seq_len", integer_node(2048)},
                                                           {"activation_checkpoint.mode", text_node("none")},
                                                           {"compile.enable", bool_node(true)}})
    put_path(root, path, value);
  const Node shape = extended_file("primus/configs/models/torchtitan/" + module.model, parent_folder(draft.path), 0);
  const bool is_here = shape.find("model") != nullptr;
  if (is_here) lay_over(shape, root);
  lay_over(module.overrides, root);
  for (const std::string_view section : {"primus_turbo", "quantize", "job", "work_group"})
    std::erase_if(root.members, [section](const auto& member) { return member.first == section; });
  const Node* turbo = module.overrides.find("primus_turbo");
  const Node* uses = turbo == nullptr ? nullptr : turbo->find("enable_primus_turbo");
  if (uses != nullptr && !is_off(*uses))
    draft.warnings.emplace_back("primus_turbo: Primus Turbo's kernels are counted as torchtitan's");
  if (const Node* quantize = module.overrides.find("quantize"); quantize != nullptr && quantize->is_object())
    draft.warnings.emplace_back("quantize: linear layers in 8 bits are counted in bf16");
  if (!is_here) PLIMSOLL_TRY_STATUS(name_model(module.model.substr(0, module.model.rfind(".yaml")), draft));
  return read_torchtitan_tree(root, draft);
}

}  // namespace

Result<Draft> read_primus_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  const Node* modules = root.find("modules");
  if (modules == nullptr || !modules->is_object() || modules->members.empty())
    return bad_input("modules: wanted a table with pre_trainer");
  const Node* trainer = nullptr;
  std::string name;
  for (const std::string_view one : {"pre_trainer", "post_trainer", "sft_trainer"})
    if (const Node* found = modules->find(one); found != nullptr && trainer == nullptr) {
      trainer = found;
      name = one;
    }
  if (trainer == nullptr || !trainer->is_object()) return bad_input("modules.pre_trainer: wanted a table");
  Module module;
  module.framework = word_at(*trainer, "framework");
  module.model = word_at(*trainer, "model");
  module.config = word_at(*trainer, "config");
  if (const Node* overrides = trainer->find("overrides"); overrides != nullptr && overrides->is_object())
    module.overrides = with_defaults(*overrides);
  if (module.model.empty()) return bad_input(fmt::format("modules.{}.model: is not given", name));
  if (module.framework == "megatron") {
    PLIMSOLL_TRY_STATUS(read_megatron(module, draft));
  } else if (module.framework == "torchtitan") {
    PLIMSOLL_TRY_STATUS(read_torchtitan(module, draft));
  } else if (module.framework == "megatron_bridge") {
    const Node shape =
        extended_file("primus/configs/models/megatron_bridge/" + module.model, parent_folder(draft.path), 0);
    Node arguments = shape;
    lay_over(module.overrides, arguments);
    PLIMSOLL_TRY_STATUS(read_bridge_recipe(arguments, module.model.substr(0, module.model.rfind(".yaml")), draft));
  } else {
    return bad_input(fmt::format("modules.{}.framework: found '{}'; megatron, torchtitan and megatron_bridge are read",
                                 name, module.framework));
  }
  draft.kind = FileKind::kPrimus;
  draft.read_as = "Primus";
  return draft;
}

bool is_primus(const Node& root) {
  const Node* modules = root.find("modules");
  return is_table(modules) && has_any(*modules, {"pre_trainer", "post_trainer", "sft_trainer"});
}

}  // namespace plimsoll::job
