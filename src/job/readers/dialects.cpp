// SPDX-License-Identifier: Apache-2.0
#include "job/readers/dialects.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/readers/by_names.h"
#include "job/readers/dialect_rows.h"
#include "job/readers/include.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool has_any(const Node& table, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&table](std::string_view key) { return table.has(key); });
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

}  // namespace

std::string_view dialect_name(FileKind kind) {
  switch (kind) {
    case FileKind::kLlamaFactory:
      return "LLaMA-Factory";
    case FileKind::kAxolotl:
      return "axolotl";
    case FileKind::kMsSwift:
      return "ms-swift";
    case FileKind::kOumi:
      return "oumi";
    case FileKind::kTorchtune:
      return "torchtune";
    case FileKind::kByNames:
      return "a tool that is not known, by the names of its keys";
    default:
      return {};
  }
}

std::optional<FileKind> dialect_of_keys(const Node& root) {
  if (root.has("base_model") &&
      has_any(root, {"sequence_len", "micro_batch_size", "datasets", "adapter", "num_epochs"}))
    return FileKind::kAxolotl;
  // LLaMA-Factory's next generation has tables of its own (peft_config, dist_config) and is read by names.
  const bool is_v1 = root.has("model_class") && root.has("model");
  if ((root.has("cutoff_len") && !is_v1) || root.has("finetuning_type") ||
      (root.has("stage") && root.has("model_name_or_path") && root.has("template")))
    return FileKind::kLlamaFactory;
  if (root.has("model") && has_any(root, {"tuner_type", "train_type"})) return FileKind::kMsSwift;
  const Node* model = root.find("model");
  const Node* training = root.find("training");
  if (model != nullptr && model->is_object()) {
    if (model->has("model_name") && training != nullptr && training->is_object()) return FileKind::kOumi;
    if (model->has("_component_")) return FileKind::kTorchtune;
  }
  return std::nullopt;
}

std::optional<FileKind> dialect_of_program(const Launch& launch) {
  const std::string& program = launch.program;
  const auto is = [&program](std::string_view name) { return program == name; };
  if (is("swift sft") || is("swift pt") || is("swift rlhf") || is("swift.cli.sft") ||
      program.ends_with("swift/cli/sft.py"))
    return FileKind::kMsSwift;
  if (is("llamafactory-cli train") || is("lmf train")) return FileKind::kLlamaFactory;
  if (!flag_value(launch, "finetuning_type").empty() && !flag_value(launch, "model_name_or_path").empty())
    return FileKind::kLlamaFactory;
  if (is("axolotl train") || is("axolotl.cli.train")) return FileKind::kAxolotl;
  if (is("oumi train")) return FileKind::kOumi;
  if (is("tune run")) return FileKind::kTorchtune;
  return std::nullopt;
}

bool names_trainer(const Launch& launch) {
  return !flag_value(launch, "per_device_train_batch_size").empty() ||
         (!flag_value(launch, "model_name_or_path").empty() && !flag_value(launch, "output_dir").empty());
}

Status lay_over_file(const std::string& name, Node& table, const Draft& draft) {
  PLIMSOLL_TRY(path, locate(name, parent_folder(draft.path)));
  PLIMSOLL_TRY(text, read_named_file(path));
  auto root = parse_json_or_yaml(text);
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

Status read_dialect_tree(FileKind kind, const Node& root, Draft& draft) {
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  draft.read_as = dialect_name(kind);
  Result<Node> translated = root;
  switch (kind) {
    case FileKind::kLlamaFactory:
      translated = from_llama_factory(root, draft);
      break;
    case FileKind::kAxolotl:
      translated = from_axolotl(root, draft);
      break;
    case FileKind::kMsSwift:
      translated = from_ms_swift(root, draft);
      break;
    case FileKind::kOumi:
      translated = from_oumi(root, draft);
      break;
    case FileKind::kTorchtune:
      translated = from_torchtune(root, draft);
      break;
    case FileKind::kByNames:
      translated = from_names(root, draft);
      break;
    default:
      translated = from_trainer_script(root, draft);
      break;
  }
  if (!translated) return tl::make_unexpected(std::move(translated.error()));
  return read_training_tree(*translated, draft);
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
