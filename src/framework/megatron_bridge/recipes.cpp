// SPDX-License-Identifier: Apache-2.0
// Recipes of Megatron-Bridge (catalog/bridge-recipes.json): what a recipe sets, below what a command line, a YAML file
// or Primus lays over it.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/result.h"
#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/transformers/include.h"
#include "job/keys.h"
#include "job/readers/launch.h"
#include "job/readers/omega.h"
#include "job/value.h"

namespace plimsoll::catalog {
extern const std::string_view kBridgeRecipesJson;  // catalog/bridge-recipes.json, embedded by cmake/embed.cmake
}

namespace plimsoll::job {

using document::Node;

namespace {

struct Recipes {
  Node root;
  std::map<std::string, const Node*, std::less<>> by_name;  // with the names of older releases
  std::map<std::string, const Node*, std::less<>> of_harness;
};

const Recipes& recipes() {
  static const Recipes kRecipes = [] {
    Recipes all;
    auto root = document::parse_json(catalog::kBridgeRecipesJson);
    PLIMSOLL_CHECK(root.has_value());
    all.root = *std::move(root);
    return all;
  }();
  static const Recipes kIndexed = [] {
    Recipes all;
    for (const Node& row : kRecipes.root.find("recipes")->items) {
      all.by_name.emplace(row.find("name")->text, &row);
      if (const Node* also = row.find("also"); also != nullptr)
        for (const Node& name : also->items) all.by_name.emplace(name.text, &row);
    }
    for (const Node& row : kRecipes.root.find("perf_recipes")->items)
      all.of_harness.emplace(row.find("name")->text, &row);
    return all;
  }();
  return kIndexed;
}

const Node* find_recipe(std::string_view name) {
  const auto& by_name = recipes().by_name;
  for (const std::string& spelling : {std::string(name), fmt::format("{}_config", name)})
    if (const auto found = by_name.find(spelling); found != by_name.end()) return found->second;
  // The name without GPUs and precision ("llama3_8b_pretrain"), as older releases had it.
  return nullptr;
}

Error unknown_recipe(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, row] : recipes().by_name) names.push_back(known);
  std::string near = nearest(name, names);
  if (near.empty()) {
    // Recipes of the same model.
    const std::string_view stem =
        name.substr(0, std::min(name.find("_pretrain"), std::min(name.find("_sft"), name.find("_peft"))));
    std::vector<std::string> same;
    for (const std::string& known : names)
      if (known.starts_with(stem) && same.size() < 3) same.push_back(known);
    near = join(same, "' or '");
  }
  return Error{Code::kBadInput,
               fmt::format("recipe '{}' is not one of the {} that are known", name.substr(0, 100), names.size()),
               {},
               near.empty() ? "give the recipe's settings as Bridge writes them (its YAML of the whole configuration)"
                            : fmt::format("did you mean '{}'?", near)};
}

// What a row sets, as a tree; its model is named in the draft.
Result<Node> tree_of(const Node& row, Draft& draft) {
  Node root;
  root.kind = Node::Kind::kObject;
  const bool has_fields_of_precision = std::any_of(row.members.begin(), row.members.end(), [](const auto& member) {
    return member.first.starts_with("mixed_precision.");
  });
  for (const auto& [key, value] : row.members) {
    if (key == "name" || key == "also" || key == "model" || key == "gpus") continue;
    if (key == "environment")
      for (const auto& [name, text] : value.members) draft.environment.emplace(name, text.text);
    else if (key == "peft")
      put_path(root, "peft._target_", text_node("LoRA"));
    else if (key == "mixed_precision" && has_fields_of_precision)  // fields are laid over a named precision
      put_path(root, "mixed_precision._target_", value);
    else
      put_path(root, key, value);
  }
  PLIMSOLL_TRY_STATUS(name_model(row.find("model")->text, draft));
  return root;
}

}  // namespace

Result<Node> bridge_recipe(std::string_view name, Draft& draft) {
  std::string_view bare = name.substr(name.rfind('.') + 1);
  bare = bare.substr(0, bare.find('('));
  const Node* row = find_recipe(bare);
  if (row == nullptr) return tl::make_unexpected(unknown_recipe(bare));
  PLIMSOLL_TRY(root, tree_of(*row, draft));
  if (const Node* gpus = row->find("gpus"); gpus != nullptr && gpus->is_integer())
    draft.assign("gpus", *gpus, fmt::format("{}, the recipe's own number", row->find("name")->text), true);
  draft.notes.push_back(fmt::format("{}: over Megatron-Bridge's recipe {}", draft.path, row->find("name")->text));
  return root;
}

Result<std::optional<Node>> bridge_harness_recipe(const HarnessWorkload& asked, Draft& draft) {
  const std::string before = fmt::format("{}_{}_", asked.model, asked.task);
  const std::string after = fmt::format("gpu_{}_{}_config", asked.gpu, asked.precision);
  const Node* row = nullptr;
  const Node* exact = nullptr;
  std::int64_t most = 0;
  const auto& all = recipes().of_harness;
  for (auto found = all.lower_bound(before); found != all.end() && found->first.starts_with(before); ++found) {
    if (!found->first.ends_with(after)) continue;
    const std::int64_t gpus = found->second->find("gpus")->integer;
    if (gpus == asked.gpus) exact = found->second;
    if (gpus > most) {
      most = gpus;
      row = found->second;
    }
  }
  if (exact != nullptr) row = exact;
  if (row == nullptr) return std::optional<Node>{};
  PLIMSOLL_TRY(root, tree_of(*row, draft));
  constexpr std::int64_t kMostGpus = std::int64_t{1} << 24;  // more are no job; the reader of the key says so
  if (exact == nullptr && asked.gpus > 0 &&
      asked.gpus <= kMostGpus) {  // another number of GPUs: as many sequences for each as the recipe has
    const Node* const batch = row->find("train.global_batch_size");
    Node scaled = *batch;
    scaled.integer = batch->integer * asked.gpus / most;
    put_path(root, "train.global_batch_size", scaled);
  }
  draft.notes.push_back(
      fmt::format("{}: over the performance recipe {} of Megatron-Bridge", draft.path, row->find("name")->text));
  return std::optional<Node>{std::move(root)};
}

Status read_bridge_recipe(const Node& arguments, const std::string& model, Draft& draft) {
  draft.vocabulary = Framework::kMegatronBridge;
  draft.framework = Framework::kMegatronBridge;
  const Node* flavor = arguments.find("flavor");
  if (flavor == nullptr || !flavor->is_string()) flavor = arguments.find("recipe");
  const std::string name = flavor != nullptr && flavor->is_string() ? flavor->text : model;
  Node root;
  if (auto recipe = bridge_recipe(name, draft)) {
    root = *std::move(recipe);
  } else {
    // The arguments say the sizes; of the recipe only the model is needed then.
    const Node* path = arguments.find("hf_path");
    const bool says_sizes = arguments.has("micro_batch_size") && arguments.has("tensor_model_parallel_size");
    if (path == nullptr || !path->is_string() || !says_sizes) return tl::make_unexpected(std::move(recipe.error()));
    PLIMSOLL_TRY_STATUS(name_model(path->text, draft));
    root.kind = Node::Kind::kObject;
    put_path(root, "mixed_precision", text_node("bf16_mixed"));
  }
  PLIMSOLL_TRY_STATUS(read_bridge_tree(root, draft));
  for (const auto& [key, value] : arguments.members) {
    if (value.is_null() || value.is_object()) continue;
    if (key == "flavor" || key == "recipe" || key == "hf_path" || key == "dataset" || key == "stage") continue;
    if (key == "precision_config") {
      draft.assign("recipe", value, key);
    } else if (key == "packed_sequence") {
      draft.assign("packed_sequences", value, key);
    } else if (key == "peft" && value.is_string() && lower(value.text) == "none") {
      std::erase_if(draft.assignments, [](const Assignment& given) {
        return given.key == "peft" || given.key.starts_with("lora_") || given.key == "adapter_dtype";
      });
    } else if (key == "peft_dim") {
      draft.assign("lora_rank", value, key);
    } else if (key != "peft_alpha") {
      draft.assign(key, value);
    }
  }
  return {};
}

bool names_bridge_recipe(std::string_view program, const std::vector<ShellWord>& words) {
  return program.ends_with("run_recipe.py") || names_bridge_harness(words) ||
         std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
           return word.text == "--recipe" || word.text.starts_with("--recipe=");
         });
}

std::string bridge_recipe_name(std::string_view model, std::string_view mode) {
  const bool adapts = mode == "lora" || mode == "dora" || mode == "peft";
  return fmt::format("{}_{}_config", model, adapts ? "peft" : mode.empty() ? "pretrain" : mode);
}

std::vector<std::pair<std::string, Node>> bridge_recipe_settings(std::string_view name) {
  std::vector<std::pair<std::string, Node>> settings;
  const Node* row = find_recipe(name);
  if (row == nullptr) return settings;
  for (const auto& [key, value] : row->members)
    if (key.find('.') != std::string::npos) settings.emplace_back(key, value);
  return settings;
}

std::string shortest_bridge_recipe(std::string_view stem) {
  std::string shortest;
  for (const auto& [name, row] : recipes().by_name)
    if (name.starts_with(stem) && (shortest.empty() || name.size() < shortest.size())) shortest = name;
  return shortest;
}

Status read_recipe_command(const std::vector<ShellWord>& words, Draft& draft) {
  draft.kind = FileKind::kBridgeConfig;
  draft.vocabulary = Framework::kMegatronBridge;
  draft.framework = Framework::kMegatronBridge;
  draft.read_as = "a recipe of Megatron-Bridge";
  const auto value_of = [&words](std::string_view flag) -> std::string {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].text == flag && i + 1 < words.size()) return words[i + 1].text;
      if (words[i].text.starts_with(flag) && words[i].text.size() > flag.size() && words[i].text[flag.size()] == '=')
        return words[i].text.substr(flag.size() + 1);
    }
    return {};
  };
  if (names_bridge_harness(words)) return read_harness_command(words, draft);
  std::string name = value_of("--recipe");
  if (name.empty() && !value_of("--model").empty()) name = bridge_recipe_name(value_of("--model"), value_of("--mode"));
  if (name.empty()) return bad_input("--recipe: its value needs a variable that the script does not set");
  PLIMSOLL_TRY(root, bridge_recipe(name, draft));
  // Fields of a named precision are laid over it.
  for (auto& [section, value] : root.members)
    if (section == "mixed_precision" && value.is_string()) {
      const Node named = value;
      value = Node{};
      value.kind = Node::Kind::kObject;
      value.members.emplace_back("_target_", named);
    }
  std::vector<std::pair<std::string, std::string>> unknown;
  for (const ShellWord& word : words) {
    const Override given = split_override(word.text);
    if (given.path.empty()) continue;
    if (word.unknown.empty()) {
      put_path(root, given.path, document::parse_scalar(given.value));
    } else {
      unknown.emplace_back(given.path, word.unknown.front());
      put_path(root, given.path, Node{});
    }
  }
  PLIMSOLL_TRY_STATUS(read_bridge_tree(root, draft));
  for (const auto& [path, variable] : unknown) {
    const std::string key = path.substr(path.rfind('.') + 1);
    const Alias* alias = find_alias(Framework::kMegatronBridge, key);
    const bool matters = is_key(key) || (alias != nullptr && alias->kind != AliasKind::kNoEffect);
    if (!matters || path.starts_with("logger.") || path.starts_with("checkpoint.")) continue;
    draft.assign(key, Node{}, path);
    draft.assignments.back().problem = fmt::format("its value needs {}, which the script does not set", variable);
  }
  return {};
}

}  // namespace plimsoll::job
