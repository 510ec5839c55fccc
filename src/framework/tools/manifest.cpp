// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/manifest.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/lines.h"
#include "base/text.h"
#include "document/node.h"
#include "job/format.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::int64_t kMost = 1 << 16;

std::vector<std::string> documents_of(std::string_view text) {
  std::vector<std::string> documents(1);
  for (const std::string_view line : lines(text)) {
    if (line == "---" || line.starts_with("--- ")) {
      documents.emplace_back();
    } else {
      documents.back() += line;
      documents.back() += '\n';
    }
  }
  std::erase_if(documents, [](const std::string& document) { return trim(document).empty(); });
  return documents;
}

std::string in_quotes(std::string_view word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::int64_t count_of(const Node* table, std::string_view key, std::int64_t otherwise) {
  const Node* value = is_table(table) ? table->find(key) : nullptr;
  const auto number = value == nullptr ? std::nullopt : std::optional(to_integer(*value, Range{1, double{kMost}}));
  return number && *number ? **number : otherwise;
}

// The words of command or args; a text alone is one word.
std::vector<std::string> words_of(const Node* list) {
  std::vector<std::string> words;
  if (list == nullptr || list->is_null()) return words;
  if (!list->is_array()) return {document::to_text(*list)};
  for (const Node& item : list->items) words.emplace_back(trim(document::to_text(item)));
  return words;
}

// GPUs of resources: {limits: {nvidia.com/gpu: 8}}, or of the table of limits itself.
std::int64_t gpus_in(const Node* resources) {
  if (!is_table(resources)) return 0;
  for (const char* kind : {"limits", "requests"})
    if (const std::int64_t found = gpus_in(resources->find(kind)); found > 0) return found;
  for (const char* name : {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi"})
    if (const std::int64_t found = count_of(resources, name, 0); found > 0) return found;
  return 0;
}

class Containers {
 public:
  explicit Containers(ScriptInYaml& out) : out_(out) {}

  // `copies` is how many of what is below a table run at once.
  void walk(const Node& node, std::int64_t copies, int depth) {
    if (depth > document::kMaxDepth) return;
    for (const Node& item : node.items) walk(item, copies, depth + 1);
    if (!node.is_object()) return;
    const std::int64_t here = std::min(kMost, copies * own_copies(node));
    const std::int64_t devices = std::max(gpus_in(node.find("resources")), gpus_in(node.find("resourcesPerNode")));
    out_.gpus = std::min(kMost, out_.gpus + devices * here);
    if (node.has("command") || node.has("args")) take_script(node);
    for (const auto& [key, value] : node.members)
      if (key != "initContainers" && key != "env" && (value.is_object() || value.is_array()))
        walk(value, here, depth + 1);
  }

 private:
  // Replicas of a Job, of a set of jobs or of a role; a group of leader and workers has a size.
  static std::int64_t own_copies(const Node& table) {
    return count_of(&table, "replicas", 1) * count_of(&table, "parallelism", 1) * count_of(&table, "numNodes", 1) *
           (is_table(table.find("workerTemplate")) ? count_of(&table, "size", 1) : 1);
  }

  void take_script(const Node& container) {
    std::vector<std::string> words = words_of(container.find("command"));
    const std::vector<std::string> more = words_of(container.find("args"));
    words.insert(words.end(), more.begin(), more.end());
    if (words.empty()) return;
    std::string script;
    if (const Node* env = container.find("env"); env != nullptr && env->is_array())
      for (const Node& one : env->items) {
        const Node* name = one.find("name");
        const Node* value = one.find("value");
        if (name == nullptr || value == nullptr || !name->is_string()) continue;
        const std::string text = document::to_text(*value);
        script += fmt::format("export {}={}\n", name->text, in_quotes(text));
        for (std::string& word : words) word = replace_all(word, fmt::format("$({})", name->text), text);
      }
    // Masters and workers of one job run the same script.
    const std::string whole = script + as_script(words);
    if (out_.text.find(whole) == std::string::npos) out_.text += whole;
  }

  // "bash -c TEXT" is its text, any other command one line.
  static std::string as_script(const std::vector<std::string>& words) {
    const std::string_view shell = std::string_view(words.front()).substr(words.front().rfind('/') + 1);
    if (shell == "bash" || shell == "sh" || shell == "zsh")
      for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i].empty() || words[i].front() != '-') break;
        const bool is_text = words[i] != "--" && !words[i].starts_with("--") && words[i].ends_with('c');
        const std::size_t at = i + (i + 1 < words.size() && words[i + 1] == "--" ? 2 : 1);
        if (is_text && at < words.size()) return words[at] + "\n";
      }
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + in_quotes(word);
    return line + "\n";
  }

  static std::string replace_all(std::string text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  }

  ScriptInYaml& out_;
};

}  // namespace

bool is_manifest(std::string_view text) {
  const auto has_line = [text](std::string_view start) {
    return text.starts_with(start) || text.find("\n" + std::string(start)) != std::string_view::npos;
  };
  // Values of a chart whose template has one container: its command, a list, and resources stand alone.
  constexpr std::string_view kCommand = "\ncommand:";
  const std::size_t command = text.find(kCommand);
  const std::string_view words =
      command == std::string_view::npos ? std::string_view{} : trim(text.substr(command + kCommand.size()));
  const bool is_list = words.starts_with('-') || words.starts_with('[');
  if (is_list && has_line("resources:") && has_line("image:")) return true;
  return has_line("apiVersion:") && has_line("kind:") &&
         (text.find("kind: ConfigMap") != std::string_view::npos || text.find("command:") != std::string_view::npos ||
          text.find("args:") != std::string_view::npos);
}

Result<ScriptInYaml> script_in_yaml(std::string_view text) {
  ScriptInYaml script;
  if (trim(text).starts_with("#!")) return script;
  if (is_manifest(text)) {
    script.is_manifest = true;
    for (const std::string& document : documents_of(text)) {
      const auto root = document::parse_yaml(document);
      if (!root && text.find("{{") != std::string_view::npos)
        return bad_input("the manifest is a template, whose {{...}} are not filled in",
                         "give what helm template makes of it");
      if (!root) return tl::make_unexpected(root.error());
      if (!root->is_object()) continue;
      const Node* kind = root->find("kind");
      const Node* data = root->find("data");
      if (kind != nullptr && kind->is_string() && kind->text == "ConfigMap" && is_table(data)) {
        for (const auto& [name, value] : data->members)
          if (value.is_string()) script.files[name] = value.text;
        continue;
      }
      Containers(script).walk(*root, 1, 0);
    }
    if (script.text.empty() && script.files.size() != 1) return bad_input("no container of the manifest has a command");
    return script;
  }
  const bool has_list = text.find("\ncommands:") != std::string_view::npos;
  if (text.find("\nrun:") == std::string_view::npos && !has_list) return script;
  const auto root = document::parse_yaml(text);
  const Node* run = root && root->is_object() ? root->find("run") : nullptr;
  if (run != nullptr && run->is_string()) script.text = run->text;
  // A list of commands, one line each however it is folded, under an environment of "NAME=value" or a table.
  const Node* listed = root && root->is_object() ? root->find("commands") : nullptr;
  if (run != nullptr || listed == nullptr || !listed->is_array()) return script;
  for (const Node& item : listed->items)
    if (!item.is_string()) return script;
  if (const Node* env = root->find("env"); env != nullptr) {
    for (const Node& one : env->items)
      if (one.is_string() && one.text.find('=') != std::string::npos) {
        const std::size_t equals = one.text.find('=');
        script.text +=
            fmt::format("export {}={}\n", one.text.substr(0, equals), in_quotes(one.text.substr(equals + 1)));
      }
    for (const auto& [name, value] : env->members)
      if (!value.is_object() && !value.is_array() && !value.is_null())
        script.text += fmt::format("export {}={}\n", name, in_quotes(document::to_text(value)));
  }
  for (const Node& item : listed->items) script.text += item.text + "\n";
  return script;
}

}  // namespace plimsoll::job
