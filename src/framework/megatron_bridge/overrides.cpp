// SPDX-License-Identifier: Apache-2.0
// Lines of Python that change a Bridge recipe: cfg.model.x = y. Anything else that a script may do to its
// configuration is not run, so a line that does more is an error.
#include <fmt/format.h>

#include "base/lines.h"
#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/python_value.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr int kMaxStatements = 4000;

// The line without its comment.
std::string_view without_comment(std::string_view line) {
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != '\0') {
      if (line[i] == quote) quote = '\0';
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

int open_brackets(std::string_view text) {
  int open = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++open;
    } else if (c == ')' || c == ']' || c == '}') {
      --open;
    }
  }
  return open;
}

// "llama31_405b_pretrain_config" -> llama3.1-405b, where the catalogue has it.
void read_recipe(std::string_view call, Draft& draft) {
  std::string stem(call.substr(0, call.find('(')));
  stem = stem.substr(stem.rfind('.') + 1);
  for (const std::string_view tail : {"_pretrain", "_sft", "_finetune", "_peft", "_lora", "_config"})
    stem = stem.substr(0, stem.find(tail));
  const std::string dashed = replace(stem, '_', '-');
  std::string dotted = dashed;  // llama31-8b -> llama3.1-8b
  const std::size_t digit = dotted.find_first_of("0123456789");
  if (digit != std::string::npos && digit + 1 < dotted.size() && dotted[digit + 1] >= '0' && dotted[digit + 1] <= '9')
    dotted.insert(digit + 1, ".");
  for (const std::string& name : {dotted, dashed}) {
    auto model = model::find_model(name);
    if (!model) continue;
    draft.model = *std::move(model);
    draft.warnings.push_back(
        fmt::format("{}: gives the model, {}; the recipe's other settings are not read", stem, draft.model.name));
    return;
  }
}

Status put(Node& root, std::string_view path, Node value) {
  Node* table = &root;
  const std::vector<std::string_view> names = split(path, '.');
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || i > 16) return bad_input(fmt::format("'{}' is not a field", path));
    const Node* found = table->find(names[i]);
    if (found == nullptr) {
      table->kind = Node::Kind::kObject;
      table->members.emplace_back(std::string(names[i]), Node{});
    }
    for (auto& [name, child] : table->members)
      if (name == names[i]) table = &child;
    // A field of what a name stands for: the recipe "bf16_mixed", changed.
    if (i + 1 < names.size() && table->is_string() && names[i] == "mixed_precision") {
      Node recipe;
      recipe.kind = Node::Kind::kObject;
      recipe.members.emplace_back("_target_", *table);
      *table = std::move(recipe);
    }
    if (i + 1 < names.size() && !table->is_object() && !table->is_null())
      return bad_input(fmt::format("'{}' is a value; it has no fields", names[i]));
  }
  *table = std::move(value);
  return {};
}

}  // namespace

Result<Draft> read_bridge_overrides(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kBridgeOverrides;
  draft.vocabulary = Framework::kMegatronBridge;
  draft.framework = Framework::kMegatronBridge;
  Node root;
  root.kind = Node::Kind::kObject;
  std::string pending;
  int open = 0;
  int number = 0;
  int statements = 0;
  for (const std::string_view raw : lines(file.text)) {
    ++number;
    const std::string_view line = trim(without_comment(raw));
    pending += std::string(line) + " ";
    open += open_brackets(line);
    if (open > 0) continue;
    open = 0;
    const std::string statement(trim(pending));
    pending.clear();
    if (statement.empty() || statement.substr(0, 5) == "from " || statement.substr(0, 7) == "import ") continue;
    const std::size_t equals = statement.find('=');
    const std::string_view left = trim(std::string_view(statement).substr(0, equals));
    const std::string_view right =
        equals == std::string::npos ? "" : trim(std::string_view(statement).substr(equals + 1));
    if (++statements > kMaxStatements) return bad_input("more assignments than any configuration has");
    if (equals != std::string::npos && (left == "cfg" || left == "config")) {
      const std::string_view call_name = right.substr(0, right.find('('));
      auto recipe = bridge_recipe(trim(call_name), draft);
      if (recipe) {
        lay_over(*recipe, root);
      } else {
        read_recipe(right, draft);
      }
      // What the recipe is called with; a call that is no plain list of names and values says only the model.
      if (const auto call = parse_python(right); call && call->is_object())
        for (const auto& [key, argument] : call->members) {
          if (key.substr(0, 1) == "_" || argument.is_null() || argument.is_object()) continue;
          const bool is_batch = key == "global_batch_size" || key == "micro_batch_size";
          if (recipe) {
            put_path(root, (is_batch ? "train." : "model.") + key, argument);
          } else {
            draft.assign(key, argument);
          }
        }
      continue;
    }
    const bool is_field = left.substr(0, 4) == "cfg." || left.substr(0, 7) == "config.";
    if (equals == std::string::npos || !is_field || right.substr(0, 1) == "=")
      return bad_input(fmt::format("line {}: only assignments such as cfg.model.seq_length = 4096 are read", number));
    auto value = parse_python(right);
    if (!value) return tl::make_unexpected(std::move(value.error()).with_context(fmt::format("line {}", number)));
    PLIMSOLL_TRY_STATUS(put(root, left.substr(left.find('.') + 1), *std::move(value)));
  }
  if (!trim(pending).empty()) return bad_input("the last statement's brackets are not closed");
  PLIMSOLL_TRY_STATUS(read_bridge_tree(root, draft));
  return draft;
}

// cfg.model.x = y at the start of a line.
bool has_override_lines(std::string_view text) {
  for (const std::string_view raw : lines(text)) {
    const std::string_view line = trim(raw);
    const bool is_field = line.substr(0, 4) == "cfg." || line.substr(0, 7) == "config.";
    if (is_field && line.find('=') != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace plimsoll::job
