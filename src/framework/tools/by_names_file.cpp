// SPDX-License-Identifier: Apache-2.0
// Which files are read by the names of their keys, and how they are laid out before that.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/jax/jax.h"
#include "framework/tools/by_names.h"
#include "framework/tools/by_names_sayings.h"
#include "framework/tools/sections.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/hf_config.h"

namespace plimsoll::job {

using document::Node;

int signs_of_training(const Node& root) {
  bool length = false, batch = false, rate = false, duration = false;
  for_each_leaf(root, [&](const std::string& path, const Node&) {
    const std::string_view meaning = meaning_of(path);
    length = length || meaning == "max_length";
    batch = batch || meaning == "per_device_train_batch_size" || meaning == "global_batch_size" || meaning == "batch";
    rate = rate || meaning == "rate" || meaning == "optim";
    duration = duration || meaning == "duration";
  });
  return int{length} + int{batch} + int{rate} + int{duration};
}

bool speaks_of_training(const Node& root) {
  const int signs = signs_of_training(root);
  if (signs < 3) return false;
  constexpr int kAll = 4;  // whoever says all of them leaves the model to the command
  bool model = signs == kAll;
  for_each_leaf(root, [&model](const std::string& path, const Node& value) {
    model = model || ((value.is_string() || value.is_null()) && meaning_of(path) == "model");
  });
  const Node* sizes = root.find("model");
  const bool is_spelled_out = sizes != nullptr && sizes->is_object() && sizes->members.size() > 1;
  return model || is_spelled_out || architecture_of_names(root).has_value();
}

namespace {

// NeMo Automodel: Transformers' models under FSDP2, loaded as the checkpoint has them (components/_transformers).
bool is_automodel(const Node& root) {
  const Node* model = root.find("model");
  const Node* target = is_table(model) ? model->find("_target_") : nullptr;
  return target != nullptr && target->is_string() && target->text.starts_with("nemo_automodel");
}

std::string_view name_of_family(std::string_view type) {
  if (type == "starcoder2") return "StarCoder 2";
  if (type == "olmoe") return "OLMoE";
  return type == "mpt" ? "MPT" : type == "olmo2" ? "OLMo 2" : type == "olmo" ? "OLMo" : "Llama";
}

// Without what chooses kernels and loads data, and with the types that weights have there.
Node with_automodel_defaults(Node root) {
  const auto drop = [](Node& table, std::initializer_list<std::string_view> names) {
    std::erase_if(table.members, [names](const auto& member) {
      return std::find(names.begin(), names.end(), member.first) != names.end();
    });
  };
  drop(root, {"recipe", "ci", "dataloader", "validation_dataloader"});
  for (auto& [key, value] : root.members) {
    if (key == "model") drop(value, {"backend"});
    const Node* stages = key == "distributed" ? value.find("pp_size") : nullptr;
    if (key == "distributed" && (stages == nullptr || document::to_text(*stages) == "1"))
      drop(value, {"pipeline", "moe"});
    if (key == "model" && !value.has("torch_dtype")) value.members.emplace_back("torch_dtype", text_node("bf16"));
    // A packed length of 0 is no packing.
    if (key == "packed_sequence" && value.is_object())
      std::erase_if(value.members,
                    [](const auto& member) { return member.first == "packed_sequence_size" && is_off(member.second); });
  }
  return root;
}

// A table that is switched off ("fp8_config: {enabled: false, fp8_format: HYBRID}") says nothing more.
void clear_what_is_off(Node& table) {
  for (auto& [key, value] : table.members) {
    if (!value.is_object()) continue;
    const Node* on = value.find("enabled");
    if (on != nullptr && value.members.size() > 1 && is_off(*on)) {
      value.members.clear();
    } else {
      clear_what_is_off(value);
    }
  }
}

bool makes_images(const Node& root) {
  bool found = false;
  for_each_leaf(root, [&found](const std::string& path, const Node&) {
    for (const std::string_view part : split(path, '.'))
      for (const std::string_view word : split(part, '_'))
        found = found || word == "unet" || word == "vae" || word == "denoising" || word == "denoiser";
  });
  return found;
}

// A job for a cluster that carries the program's own file: "parameters" beside "command" and "compute: {gpus: 8}".
void unwrap_parameters(Node& root) {
  const Node* parameters = root.find("parameters");
  const Node* compute = root.find("compute");
  if (!is_table(parameters) || !has_any(root, {"command", "compute"})) return;
  Node inner = *parameters;
  interpolate(inner);  // its references are to the file as the program sees it
  const Node* gpus = is_table(compute) ? compute->find("gpus") : nullptr;
  if (gpus != nullptr && !gpus->is_null() && !inner.has("gpus")) inner.members.emplace_back("gpus", *gpus);
  root = std::move(inner);
}

}  // namespace

namespace {

// How many of length, batch and rate stand in tables: arguments of the Trainer have none.
int signs_in_tables(const Node& root) {
  Node tables = root;
  std::erase_if(tables.members, [](const auto& member) { return !member.second.is_object(); });
  return signs_of_training(tables);
}

// "dpo.yaml", "rm_score.yaml": what a file is for, where no key says it.
std::string_view loop_in_name(std::string_view path) {
  const std::string stem = lower(path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  const std::string words = replace(replace(stem.substr(0, stem.find('.')), '-', '_'), ' ', '_');
  for (const std::string_view part : split(words, '_')) {
    for (const std::string_view pairs : {"dpo", "ipo", "kto", "orpo", "simpo", "cpo"})
      if (part == pairs) return pairs;
    if (part == "rm" || part == "reward") return "reward_model";
  }
  return {};
}

// A file of several configurations, each a table that names its model, with one of defaults below them.
Status choose_configuration(Node& root, const ReadOptions& options) {
  std::vector<std::string> names;
  const Node* defaults = nullptr;
  for (const auto& [key, value] : root.members) {
    if (!value.is_object()) return {};
    const std::string word = lower(key);
    if (word.starts_with("default") || word == "base" || word == "common") {
      defaults = &value;
      continue;
    }
    bool names_model = false;
    for (const auto& [inner, item] : value.members)
      names_model = names_model || (item.is_string() && meaning_of(inner) == "model");
    if (names_model) names.push_back(key);
  }
  if (names.size() < 2) return {};
  if (options.config.empty())
    return bad_input(fmt::format("{} configurations are in the file: {}", names.size(), join(names, ", ")),
                     fmt::format("choose one with --config {}, say", names.front()));
  const Node* chosen = root.find(options.config);
  if (!is_table(chosen))
    return bad_input(fmt::format("--config {}: the file has {}", options.config, join(names, ", ")));
  Node whole = *chosen;
  if (defaults != nullptr) {
    Node below = *defaults;
    lay_over(whole, below);
    whole = std::move(below);
  }
  root = std::move(whole);
  return {};
}

}  // namespace

Result<Draft> read_by_names(const InputFile& file, const ReadOptions& options) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  draft.read_as = "a tool that is not known, by the names of its keys";
  PLIMSOLL_TRY(root,
               file.path.ends_with(".toml") ? document::parse_toml(file.text) : parse_omega(file.text, file.path));
  if (!root.is_object()) return bad_input("wanted a table of keys");
  unwrap_parameters(root);
  PLIMSOLL_TRY_STATUS(choose_configuration(root, options));
  if (is_nemo_megatron(root)) return read_nemo_megatron(file);
  if (is_flagscale(root)) return read_flagscale(file);
  if (is_jax_config(root)) return refuse_jax_config(root);
  if (is_automodel(root)) {
    draft.read_as = "NeMo Automodel";
    root = with_automodel_defaults(std::move(root));
  }
  clear_what_is_off(root);
  if (auto whole = with_sizes_in_lists(root)) root = *std::move(whole);
  if (has_other_layers(root))
    return bad_input(
        "model: its keys speak of state spaces or recurrence, or its type is no model's that is known; other layers of "
        "a tool that is not known are not modelled",
        "give the model's config.json, if it is one of Transformers");
  if (makes_images(root))
    return bad_input(
        "the keys speak of a model that makes images or video (unet, vae, denoising), which is not modelled");
  const std::string loop(loop_in_name(file.path));
  if (!loop.empty() && !root.has("method") && !root.has("loss")) {
    root.members.emplace_back("method", text_node(loop));
    draft.notes.push_back(fmt::format("{}: pairs of answers are trained, as the file's name says", draft.path));
  }
  PLIMSOLL_TRY(arguments, from_names(root, draft));
  PLIMSOLL_TRY_STATUS(read_training_tree(arguments, draft));
  PLIMSOLL_TRY_STATUS(build_of_sizes(root, draft));
  return draft;
}

Status build_of_sizes(const Node& root, Draft& draft) {
  const bool is_named = !draft.parts.empty() && !draft.parts.front().model.kinds.empty();
  if (is_named) return {};
  const std::string& path = draft.path;
  if (const auto written = architecture_of_class(root)) {
    if (auto model = model::read_hf_config(written->config)) {
      if (written->config.has("residual_in_fp32"))
        draft.warnings.emplace_back("residual_in_fp32: the stream between layers is counted in the type of the rest");
      std::erase_if(draft.assignments, [&](const Assignment& given) { return given.key.starts_with(written->path); });
      draft.model = *std::move(model);
      draft.model.name = fmt::format("the model of {}", path.substr(path.rfind('/') + 1));
      draft.model_is_weak = true;
      draft.unknown_model.clear();
      draft.notes.push_back(
          fmt::format("{}: the model is built of the arguments of a class of Transformers in the file ({})", path,
                      written->config.find("model_type")->text));
      return {};
    }
  }
  if (const std::optional<Node> sizes = architecture_of_names(root)) {
    std::erase_if(draft.assignments, [](const Assignment& given) { return is_size_of_model(given.key); });
    PLIMSOLL_TRY(model, model::read_hf_config(*sizes));
    draft.model = std::move(model);
    draft.model.name = fmt::format("the model of {}", path.substr(path.rfind('/') + 1));
    draft.model_is_weak = true;
    draft.unknown_model.clear();
    draft.notes.push_back(fmt::format("{}: the model is built of the sizes in the file, with layers as {} has them",
                                      path, name_of_family(sizes->find("model_type")->text)));
    if (!sizes->has("vocab_size"))
      draft.assignments.push_back({"vocab_size", Node{}, path, false,
                                   "vocab_size is not known: the file names a tokenizer alone; give --vocab-size"});
  }
  return {};
}

// A table in the common words of training programs with sections that neither Megatron-Bridge nor a job file has, or
// without sections and without the words that only the Trainer and Megatron-LM have.
bool is_of_unknown_tool(const Node& root) {
  const Node* model = root.find("model");
  if (is_automodel(root) || is_nemo_megatron(root) || is_flagscale(root) || is_jax_config(root)) return true;
  // Other trees of Hydra name their models' classes, too.
  const Node* target = is_table(model) ? model->find("_target_") : nullptr;
  const bool is_bridges = target != nullptr && (!target->is_string() || target->text.starts_with("megatron."));
  if (is_bridges || has_any(root, {"comm_overlap", "rerun_state_machine"})) return false;
  bool has_section = false;
  int foreign = 0;
  for (const auto& [key, value] : root.members) {
    has_section = has_section || value.is_object();
    bool is_known = is_key(key) || key.starts_with("_");
    for (const std::string_view section :
         {"model",     "train",           "optimizer", "scheduler",   "dataset",   "logger",
          "tokenizer", "checkpoint",      "dist",      "ft",          "straggler", "profiling",
          "peft",      "mixed_precision", "rng",       "env_vars",    "cluster",   "parallel",
          "batch",     "precision",       "recompute", "sharding",    "offload",   "kernels",
          "adapter",   "environment",     "moe",       "description", "name"})
      is_known = is_known || key == section;
    foreign += is_known ? 0 : 1;
  }
  constexpr int kSeveral = 4;  // beside a ddp of its own, which Megatron-Bridge has too
  if (foreign == 0 || (root.has("ddp") && foreign < kSeveral)) return false;
  const bool has_tables = is_table(root.find("peft_config")) || is_table(root.find("dist_config"));
  const bool has_own_model = root.has("model") && !root.has("model_name_or_path");  // the Trainer has no such key
  if (!has_tables && !has_own_model && signs_in_tables(root) < 2 &&
      has_any(root, {"per_device_train_batch_size", "num_train_epochs", "output_dir", "model_name_or_path"}))
    return false;
  if (!has_section && has_any(root, {"num_layers", "num-layers", "tensor_model_parallel_size", "train_batch_size",
                                     "zero_optimization"}))
    return false;
  for (const auto& member : root.members)
    if (member.first.starts_with("--")) return false;
  if (const auto whole = with_sizes_in_lists(root)) return speaks_of_training(*whole);
  return speaks_of_training(root);
}

}  // namespace plimsoll::job
