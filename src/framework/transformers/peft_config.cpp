// SPDX-License-Identifier: Apache-2.0
// PEFT's adapter_config.json (facts other-frameworks-memory.md 3.1).
#include <algorithm>

#include <fmt/format.h>

#include "base/name_pattern.h"
#include "base/text.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

namespace {

// A list, so that nothing cuts the pattern into words.
Node one_item(const Node& value) {
  Node list;
  list.kind = Node::Kind::kArray;
  list.items.push_back(value);
  return list;
}

// The linears that a pattern spells out which is no regular expression of ours (a look ahead, say):
// "(mlp|self_attn).(up|down|gate|q|k|v|o)_proj". Which layers it means is not looked at.
std::vector<std::string> modules_of_pattern(std::string_view pattern) {
  std::vector<std::string> modules;
  constexpr std::string_view kEnding = "_proj";
  for (std::size_t at = pattern.find(kEnding); at != std::string_view::npos; at = pattern.find(kEnding, at + 1)) {
    if (at > 0 && pattern[at - 1] == ')') {
      const std::size_t open = pattern.rfind('(', at - 1);
      if (open == std::string_view::npos) return {};
      std::string_view inside = pattern.substr(open + 1, at - open - 2);
      if (inside.substr(0, 2) == "?:") inside.remove_prefix(2);
      for (const std::string_view name : split(inside, '|'))
        modules.push_back(std::string(name) + std::string(kEnding));
      continue;
    }
    std::size_t start = at;
    while (start > 0 && ((pattern[start - 1] >= 'a' && pattern[start - 1] <= 'z') || pattern[start - 1] == '_'))
      --start;
    if (start < at) modules.emplace_back(pattern.substr(start, at + kEnding.size() - start));
  }
  std::vector<std::string> known;
  for (const std::string& name : modules) {
    const bool is_known = name == "q_proj" || name == "k_proj" || name == "v_proj" || name == "o_proj" ||
                          name == "gate_proj" || name == "up_proj" || name == "down_proj";
    if (!is_known) return {};
    if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  }
  return known;
}

}  // namespace

Status read_targets(const Node& value, std::string_view written_as, Draft& draft) {
  if (value.is_null()) {
    draft.assign("lora_target_modules", text_node("q_proj v_proj"), written_as, true);
    draft.warnings.push_back(
        fmt::format("{}: not given; PEFT's choice for Llama-like models, q_proj and v_proj, is counted", written_as));
    return {};
  }
  if (value.is_string() && value.text.find_first_of("*()|\\^$") != std::string::npos) {
    if (check_pattern(value.text)) {
      draft.assign("lora_target_modules", one_item(value), written_as);
      return {};
    }
    const std::vector<std::string> named = modules_of_pattern(value.text);
    if (named.empty())
      return bad_input(fmt::format("{}: {} is a pattern; name the modules instead", written_as, shown(value)));
    draft.assign("lora_target_modules", text_node(join(named, " ")), written_as);
    draft.warnings.push_back(
        fmt::format("{}: the pattern is read as {} of every layer", written_as, join(named, ", ")));
    return {};
  }
  // "self_attn.q_proj" is the linear that its last part names: PEFT compares the ends of names.
  Node targets = value;
  bool has_path = false;
  for (Node& item : targets.items)
    if (const std::size_t dot = item.text.rfind('.'); item.is_string() && dot != std::string::npos) {
      item.text.erase(0, dot + 1);
      has_path = true;
    }
  if (has_path)
    draft.warnings.push_back(
        fmt::format("{}: parts of names are read as their last words, in every module that has them", written_as));
  draft.assign("lora_target_modules", std::move(targets), written_as);
  return {};
}

void save_classifier(const Node* task, Draft& draft) {
  if (task == nullptr || !task->is_string()) return;
  const std::string word = lower(task->text);
  if (word != "seq_cls" && word != "token_cls") return;
  Node names;
  names.kind = Node::Kind::kArray;
  for (const Assignment& a : draft.assignments)
    if (a.key == "modules_to_save" && a.value.is_array()) names = a.value;
  for (const char* name : {"classifier", "score"}) names.items.push_back(text_node(name));
  draft.assign("modules_to_save", std::move(names), "task_type");
}

Result<Draft> read_peft_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kPeftConfig;
  draft.vocabulary = Framework::kTransformers;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of PEFT keys");
  const Node* type = root.find("peft_type");
  if (type == nullptr || !type->is_string() || !equals_ignoring_case(type->text, "LORA"))
    return bad_input(
        fmt::format("peft_type: found {}; only LORA is modelled", type == nullptr ? "nothing" : shown(*type)));
  bool is_dora = false;
  for (const auto& [key, value] : root.members) {
    if (key == "peft_type" || key == "target_modules" || value.is_null()) continue;
    if (key == "use_dora") {
      PLIMSOLL_TRY(on, to_bool(value));
      is_dora = on;
    } else if (key == "base_model_name_or_path") {
      if (!value.is_string()) continue;
      if (auto model = model::find_model(value.text)) draft.model = *std::move(model);
      draft.model_is_weak = true;
    } else {
      draft.assign(key, value);
    }
  }
  draft.assign("peft", text_node(is_dora ? "dora" : "lora"), "peft_type");
  const Node* targets = root.find("target_modules");
  PLIMSOLL_TRY_STATUS(read_targets(targets == nullptr ? Node{} : *targets, "target_modules", draft));
  save_classifier(root.find("task_type"), draft);
  const Node* layers = root.find("layers_to_transform");
  const bool is_word = targets != nullptr && targets->is_string();
  if (is_word && layers != nullptr && !layers->is_null())
    return bad_input("layers_to_transform: target_modules is one text, where PEFT takes no layers",
                     "list the modules, or name the layers in the pattern");
  return draft;
}

bool is_peft_config(const Node& root) { return root.has("peft_type"); }

}  // namespace plimsoll::job
