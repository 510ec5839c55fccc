// SPDX-License-Identifier: Apache-2.0
// What a file is, by what it holds; its name does not matter. Text that no document format explains may
// be a script or lines of Python; a document is told by keys that only one kind of file has.
#include <algorithm>

#include <fmt/format.h>

#include "base/lines.h"
#include "base/text.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "model/hf_config.h"
#include "model/safetensors_index.h"

namespace plimsoll::job {

using document::Node;

namespace {

std::optional<FileKind> known_by(TextStrength strength, std::string_view text) {
  for (const TextSign& sign : text_signs())
    if (sign.strength == strength && sign.holds(text)) return sign.kind;
  return std::nullopt;
}

std::optional<FileKind> known_by(Strength strength, const Node& root) {
  for (const TableSign& sign : table_signs())
    if (sign.strength == strength && sign.holds(root)) return sign.kind;
  return std::nullopt;
}

// Words that start a training program on a command line.
bool starts_training(std::string_view line) {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> words = {"torchrun ", "accelerate launch", "deepspeed ",     "srun ",
                                      "python ",   "python3 ",          "ray job submit", "bash "};
    for (const Command& command : tool_commands())
      for (const std::string_view verb : split(command.verbs, ' '))
        words.push_back(fmt::format("{} {}", command.program, verb));
    return words;
  }();
  return std::any_of(kWords.begin(), kWords.end(),
                     [line](const std::string& word) { return line.find(word) != std::string_view::npos; });
}

// A script without its first line: assignments, exports, commands with continued lines.
bool looks_like_shell(std::string_view text) {
  int signs = 0;
  bool launches = false;
  for (const std::string_view raw : lines(text.substr(0, 1 << 18))) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.substr(0, 7) == "export " || line == "fi" || line == "done" || line == "esac" || line.back() == '\\')
      ++signs;
    const std::size_t equals = line.find('=');
    const bool assigns = equals != std::string_view::npos && equals > 0 && line[equals - 1] != ' ' &&
                         equals + 1 < line.size() && line[equals + 1] != ' ' &&
                         line.substr(0, equals).find_first_of(" :{[\"'.") == std::string_view::npos;
    if (assigns) ++signs;
    if (starts_training(line) && line.find(": ") == std::string_view::npos) launches = true;
    if (launches && signs > 0) return true;
  }
  return launches && text.find(" --") != std::string_view::npos && text.find("import ") == std::string_view::npos;
}

bool is_shell_script(std::string_view text, std::string_view path) {
  const std::string_view start = trim(text);
  for (const std::string_view ending : {".sh", ".bash", ".slurm", ".sbatch"})
    if (path.ends_with(ending) && start.substr(0, 1) != "{") return true;
  if (start.substr(0, 2) == "#!") return start.substr(0, start.find('\n')).find("sh") != std::string_view::npos;
  if (start.empty() || start.front() == '{') return false;
  return known_by(TextStrength::kCommands, text) || looks_like_shell(text);
}

// A text that is no document; nothing where it may be one.
std::optional<FileKind> recognise_text(const InputFile& file) {
  const std::string_view text = file.text;
  if (const auto kind = known_by(TextStrength::kBytes, text)) return kind;
  if (trim(text).front() == '{') return std::nullopt;
  if (const auto kind = known_by(TextStrength::kLog, text)) return kind;
  if (const auto kind = known_by(TextStrength::kText, text)) return kind;
  if (!is_shell_script(text, file.path)) return known_by(TextStrength::kLines, text);
  // A document that holds a command beside the settings of the training.
  const bool is_yaml = file.path.ends_with(".yaml") || file.path.ends_with(".yml");
  if (is_yaml)
    if (auto root = parse_document(text); root && root->is_object() && is_of_unknown_tool(*root))
      return FileKind::kByNames;
  return FileKind::kLaunchScript;
}

std::optional<FileKind> recognise_table(Node root, const InputFile& file) {
  if (const auto kind = known_by(Strength::kSure, root)) return kind;
  if (root.has("defaults"))  // what it is may be said by the files below it
    if (auto whole = load_omega(file.text, file.path); whole && whole->is_object()) root = *std::move(whole);
  if (const auto kind = known_by(Strength::kTool, root)) return kind;
  const auto typical = known_by(Strength::kTypical, root);
  if (is_table(root.find("model")) && !typical && is_of_unknown_tool(root)) return FileKind::kByNames;
  // A table of training may have a "model_type" of its own; a model's has its sizes or its class.
  const bool is_of_training =
      !root.has("hidden_size") && !root.has("architectures") && !typical && is_of_unknown_tool(root);
  if (trim(file.text).front() == '{' && !is_of_training && model::looks_like_hf_config(root))
    return FileKind::kHfConfig;
  if (typical) return typical;
  if (is_of_unknown_tool(root)) return FileKind::kByNames;
  return known_by(Strength::kCommon, root);
}

}  // namespace

bool is_log(FileKind kind) {
  return std::any_of(text_signs().begin(), text_signs().end(),
                     [kind](const TextSign& sign) { return sign.kind == kind && sign.strength == TextStrength::kLog; });
}

bool is_index_of_checkpoint(const Node& root) { return model::looks_like_safetensors_index(root); }

bool names_framework(const Node& root) { return root.has("framework"); }

bool has_sections_of_job(const Node& root) {
  for (const std::string_view section :
       {"cluster", "parallel", "batch", "precision", "recompute", "sharding", "offload", "kernels", "adapter"})
    if (is_table(root.find(section))) return true;
  return has_any(root, {"framework", "model"});
}

namespace {

// Lines that only Python has at its left edge.
bool looks_like_python(std::string_view text) {
  for (const std::string_view line : lines(text.substr(0, 1 << 16))) {
    const bool imports =
        line.starts_with("import ") || (line.starts_with("from ") && line.find(" import ") != line.npos);
    const bool defines = (line.starts_with("def ") || line.starts_with("class ")) && trim(line).ends_with(':');
    if (imports || defines || line.find(" = dict(") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

Result<FileKind> recognise(const InputFile& file) {
  if (trim(file.text).empty()) return bad_input("the file is empty");
  if (const auto kind = recognise_text(file)) return *kind;
  auto root = parse_document(file.text);
  const bool is_table_of_keys = root && root->is_object();
  if (!is_table_of_keys && looks_like_python(file.text))
    return bad_input(
        "a Python program, which is not run here: configurations that assign a model and its training in known words, "
        "registries of torchtitan and recipes of Megatron-Bridge are read",
        "give the script that starts it, or the configuration that it reads");
  if (!root) return tl::make_unexpected(std::move(root.error()));
  if (is_table_of_keys)
    if (const auto kind = recognise_table(*std::move(root), file)) return *kind;
  return bad_input(
      "not recognised: it is neither a job file (framework, model, [cluster], ...), nor config.json (model_type), "
      "Megatron-LM "
      "flags or arguments (--num-layers), a Megatron-Bridge configuration (model, train, ddp), TrainingArguments "
      "(per_device_train_batch_size), an accelerate (distributed_type), DeepSpeed (zero_optimization), torchtitan "
      "([parallelism]) or PEFT (peft_type) file, nor one of axolotl (base_model), LLaMA-Factory (finetuning_type), "
      "ms-swift "
      "(tuner_type), oumi, torchtune, nanotron, GPT-NeoX or Primus, nor a table that names a model and its training in "
      "common words (max_seq_len, micro_batch_size, learning_rate, ...)");
}

}  // namespace plimsoll::job
