// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/dialects.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/tools/by_names.h"
#include "framework/tools/dialect_rows.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/python_module.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr const Dialect* kDialects[] = {
#define PLIMSOLL_ROW(kind, name) &name##_dialect,
    PLIMSOLL_DIALECTS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};

}  // namespace

const std::vector<Command>& tool_commands() {
  static const std::vector<Command> commands = [] {
    std::vector<Command> all = {{"trl", "sft dpo kto"}};  // read in common words
    for (const Dialect* dialect : kDialects) all.insert(all.end(), dialect->commands.begin(), dialect->commands.end());
    return all;
  }();
  return commands;
}

std::string flag_value(const Launch& launch, std::string_view wanted) {
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const std::string& word = launch.arguments[i].text;
    if (!is_flag(word) || key_of_flag(word) != wanted) continue;
    if (const std::size_t equals = word.find('='); equals != std::string::npos) return word.substr(equals + 1);
    return i + 1 < launch.arguments.size() ? launch.arguments[i + 1].text : " ";
  }
  return {};
}

namespace {

const Dialect* dialect_of(FileKind kind) {
  for (const Dialect* dialect : kDialects)
    if (dialect->kind == kind) return dialect;
  return nullptr;
}

}  // namespace

std::optional<FileKind> dialect_of_program(const Launch& launch) {
  for (const Dialect* dialect : kDialects)
    if (dialect->starts(launch.program)) return dialect->kind;
  for (const Dialect* dialect : kDialects)
    if (dialect->has_flags != nullptr && dialect->has_flags(launch)) return dialect->kind;
  return std::nullopt;
}

bool names_trainer(const Launch& launch) {
  return !flag_value(launch, "per_device_train_batch_size").empty() ||
         (!flag_value(launch, "model_name_or_path").empty() && !flag_value(launch, "output_dir").empty());
}

Status lay_over_file(const std::string& name, Node& table, const Draft& draft) {
  PLIMSOLL_TRY(path, locate(name, parent_folder(draft.path)));
  PLIMSOLL_TRY(text, read_named_file(path));
  auto root = path.ends_with(".py") ? read_python_module(text) : parse_json_or_yaml(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  if (!root->is_object()) return bad_input(fmt::format("{}: wanted a table of keys", path));
  // What the command says wins, also inside a section.
  Node whole = *std::move(root);
  lay_over(table, whole);
  table = std::move(whole);
  return {};
}

void write_here_documents(const std::map<std::string, std::string>& files, Node& table) {
  for (auto& [key, value] : table.members) {
    if ((key != "deepspeed" && key != "deepspeed_config" && key != "fsdp_config") || !value.is_string()) continue;
    const auto written = files.find(value.text);
    if (written == files.end()) continue;
    if (auto root = parse_json_or_yaml(written->second); root && root->is_object()) value = *std::move(root);
  }
}

void take_lightning_config(const std::map<std::string, std::string>& environment, const Shell& shell, Node& table) {
  constexpr const char* kName = "PL_DEEPSPEED_CONFIG_PATH";
  const Node* strategy = table.find("strategy");
  const bool is_asked = strategy != nullptr && strategy->is_string() && strategy->text.starts_with("deepspeed");
  if (!is_asked || table.has("deepspeed")) return;
  for (const auto* known : {&environment, &shell.environment})
    if (const auto found = known->find(kName); found != known->end()) {
      table.members.emplace_back("deepspeed", text_node(found->second));
      return;
    }
  // Its name may hold what only the run knows (the number of the batch job); the script writes one such file.
  const std::string* only = nullptr;
  for (const auto& [path, text] : shell.files) {
    if (text.find("\"zero_optimization\"") == std::string::npos) continue;
    if (only != nullptr) return;
    only = &path;
  }
  if (only != nullptr) table.members.emplace_back("deepspeed", text_node(*only));
}

Status read_dialect_tree(FileKind kind, const Node& root, Draft& draft) {
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  const Dialect* dialect = dialect_of(kind);
  auto translate = dialect != nullptr ? dialect->translate : from_trainer_script;
  draft.read_as = dialect != nullptr ? dialect->name : std::string_view{};
  if (kind == FileKind::kByNames) {
    draft.read_as = "a tool that is not known, by the names of its keys";
    translate = from_names;
  }
  const Result<Node> translated = translate(root, draft);
  if (!translated) return tl::make_unexpected(translated.error());
  PLIMSOLL_TRY_STATUS(read_training_tree(*translated, draft));
  return kind == FileKind::kByNames ? build_of_sizes(root, draft) : Status{};
}

Result<Draft> read_trainer_dialect(const InputFile& file, FileKind kind) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of keys");
  PLIMSOLL_TRY_STATUS(read_dialect_tree(kind, root, draft));
  return draft;
}

}  // namespace plimsoll::job
