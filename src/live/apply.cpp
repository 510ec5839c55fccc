// SPDX-License-Identifier: Apache-2.0
#include "live/apply.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"
#include "base/write.h"
#include "document/node.h"
#include "emit/emit.h"
#include "emit/text.h"

namespace plimsoll::live {

namespace {

using document::Node;
namespace fs = std::filesystem;

// Key as the framework writes it -> value; null: a bare switch.
using Written = std::map<std::string, Node>;

void flatten(const Node& node, const std::string& path, Written& written) {
  if (!node.is_object()) {
    written[path] = node;
    return;
  }
  for (const auto& [key, value] : node.members) flatten(value, path.empty() ? key : path + "." + key, written);
}

// The flags of the training command in a launch script.
void read_flags(std::string_view script, Written& written) {
  std::vector<std::string_view> words;
  for (const std::string_view line : lines(script)) {
    if (trim(line).starts_with('#')) continue;
    for (const std::string_view word : split(line, ' '))
      if (!word.empty() && word != "\\") words.push_back(word);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--") && !words[i + 1].starts_with('#');
    written[std::string(words[i].substr(2))] = has_value ? document::parse_scalar(words[i + 1]) : Node{};
  }
}

// What the framework's own files would say of a job.
Result<Written> written_for(const job::Job& job) {
  PLIMSOLL_TRY(files, emit::emit(job, emit::target_of(job.framework), {}));
  Written written;
  for (const emit::File& file : files) {
    if (file.name == "plimsoll.toml" || file.name == "config.json") continue;
    Result<Node> node = bad_input("no document");
    if (file.name.ends_with(".json")) node = document::parse_json(file.text);
    if (file.name.ends_with(".toml")) node = document::parse_toml(file.text);
    if (file.name.ends_with(".yaml")) node = document::parse_yaml(file.text);
    if (node) flatten(*node, "", written);
    if (file.is_command) read_flags(file.text, written);
  }
  return written;
}

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
}

// "--micro-batch-size" and "--micro_batch_size" are one flag; torchtitan writes the section before the name.
bool names_key(std::string_view word, const std::string& path) {
  while (word.starts_with('-')) word.remove_prefix(1);
  const std::string name = replace(word, '-', '_');
  return name == replace(path, '-', '_') || name == replace(leaf(path), '-', '_');
}

std::string shown_value(const Node& value) {
  if (value.is_bool()) return value.boolean ? "True" : "False";  // as Python's parsers of both kinds read it
  return document::to_text(value);
}

// The value of a flag or of KEY=VALUE in the command, replaced; false where the command does not have it.
bool set_in_words(const std::string& path, const Node& value, std::vector<std::string>& words,
                  std::vector<std::string>& said) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    if (!names_key(name, path)) continue;
    if (equals != std::string::npos) {
      said.push_back(fmt::format("  {}={}, was {}", name, shown_value(value), words[i].substr(equals + 1)));
      words[i] = name + "=" + shown_value(value);
      return true;
    }
    if (!words[i].starts_with("--")) continue;
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
    if (!has_value) return false;  // a bare switch has no value to set
    said.push_back(fmt::format("  {} {}, was {}", words[i], shown_value(value), words[i + 1]));
    words[i + 1] = shown_value(value);
    return true;
  }
  return false;
}

// The first line of TOML or YAML that sets the key, with its value replaced.
bool set_in_lines(const std::string& path, const Node& value, std::string& text) {
  const std::string name = leaf(path);
  std::vector<std::string> lines;
  bool done = false;
  for (const std::string_view line : plimsoll::lines(text)) {
    const std::size_t indent = std::min(line.size(), line.find_first_not_of(" \t"));
    std::string_view rest = line.substr(indent);
    const bool begins = rest.starts_with(name);
    rest = begins ? trim(rest.substr(name.size())) : std::string_view{};
    if (done || rest.empty() || (rest.front() != '=' && rest.front() != ':')) {
      lines.emplace_back(line);
      continue;
    }
    done = true;
    lines.push_back(fmt::format("{}{}{} {}", line.substr(0, indent), name, rest.front() == '=' ? " =" : ":",
                                emit::value_text(value)));
  }
  if (done) text = join(lines, "\n");
  return done;
}

void set_in_tree(Node& root, const std::string& path, const Node& value) {
  Node* at = &root;
  const std::vector<std::string_view> parts = split(path, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Node* found = nullptr;
    for (auto& [key, member] : at->members)
      if (key == parts[i]) found = &member;
    if (found == nullptr) {
      at->members.emplace_back(std::string(parts[i]), Node{});
      found = &at->members.back().second;
      if (i + 1 < parts.size()) found->kind = Node::Kind::kObject;
    }
    at = found;
  }
  *at = value;
}

// A configuration file that the command names.
struct NamedFile {
  std::string path;      // as --job gave it
  std::size_t word = 0;  // of the command
  std::string text;
  bool changed = false;
};

std::vector<NamedFile> files_in(const std::vector<std::string>& words, const std::vector<std::string>& job_files) {
  std::vector<NamedFile> found;
  for (const std::string& path : job_files)
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string value = words[i].substr(words[i].find('=') == std::string::npos ? 0 : words[i].find('=') + 1);
      std::error_code error;
      if (value != path && !fs::equivalent(value, path, error)) continue;
      if (auto text = read_file(path)) found.push_back({path, i, *std::move(text), false});
      break;
    }
  return found;
}

// `adds`: also where the file does not have the key yet, if it has others of the framework.
bool set_in_file(NamedFile& file, const std::string& path, const Node& value, const Written& all, bool adds) {
  if (file.path.ends_with(".json")) {
    auto root = document::parse_json(file.text);
    if (!root || !root->is_object() || root->has("model_type")) return false;  // a model's own file is not the run's
    Written here;
    flatten(*root, "", here);
    const bool has_it = here.contains(path) || root->has(leaf(path));
    const bool is_kin =
        std::any_of(here.begin(), here.end(), [&all](const auto& one) { return all.contains(one.first); });
    if (!has_it && !(adds && is_kin)) return false;
    // A file may have the key deeper, or not at all: where its leaf stands already, there it is set.
    set_in_tree(*root, root->has(leaf(path)) ? leaf(path) : path, value);
    file.text = emit::pretty_json(*root) + "\n";
    file.changed = true;
    return true;
  }
  if (!file.path.ends_with(".toml") && !file.path.ends_with(".yaml") && !file.path.ends_with(".yml")) return false;
  const bool done = set_in_lines(path, value, file.text);
  file.changed = file.changed || done;
  return done;
}

// A new flag at the end of a command that has flags of the same framework already.
bool append_flag(const std::string& path, const Node& value, const Written& all, std::vector<std::string>& words,
                 std::vector<std::string>& said) {
  const bool speaks = std::any_of(words.begin() + 1, words.end(), [&all](const std::string& word) {
    return word.starts_with("--") && std::any_of(all.begin(), all.end(), [&word](const auto& one) {
             return names_key(word.substr(0, word.find('=')), one.first);
           });
  });
  if (!speaks) return false;
  const std::string flag = "--" + path;
  words.push_back(flag);
  if (!value.is_null()) words.push_back(shown_value(value));
  said.push_back(fmt::format("  {}{}", flag, value.is_null() ? "" : " " + shown_value(value)));
  return true;
}

}  // namespace

Result<Applied> apply(const job::Job& before, const job::Job& after, const job::Settings& settings,
                      const std::vector<std::string>& words, const std::vector<std::string>& job_files,
                      const std::string& folder) {
  Applied applied;
  applied.words = words;
  applied.job_files = job_files;
  for (const auto& [key, value] : settings)
    if (key.starts_with("environment.")) {
      applied.environment.emplace_back(key.substr(12), value);
      applied.said.push_back(fmt::format("  {}={}", key.substr(12), value));
    }
  PLIMSOLL_TRY(old_keys, written_for(before));
  PLIMSOLL_TRY(new_keys, written_for(after));
  std::vector<NamedFile> files = files_in(words, job_files);
  for (const auto& [path, value] : new_keys) {
    const auto old = old_keys.find(path);
    if (old != old_keys.end() && document::to_json(old->second) == document::to_json(value)) continue;
    if (path.starts_with("environment.") || path.find("ALLOC_CONF") != std::string::npos) continue;
    bool set = set_in_words(path, value, applied.words, applied.said);
    for (const bool adds : {false, true})
      for (NamedFile& file : files) {
        if (set || !set_in_file(file, path, value, new_keys, adds)) continue;
        set = true;
        applied.said.push_back(fmt::format("  {}: {} = {}", file.path, path, shown_value(value)));
      }
    set = set || append_flag(path, value, new_keys, applied.words, applied.said);
    if (!set)
      return bad_input(fmt::format("the command has no place for {} = {}", path, shown_value(value)),
                       "set it in your program, or name the configuration file in the command and with --job");
  }
  // A key that is no longer said must not stay in the command; where it was never there, the default acts already.
  for (const auto& [path, value] : old_keys) {
    if (new_keys.contains(path)) continue;
    const std::string& name = path;
    const bool in_words = std::any_of(words.begin() + 1, words.end(), [&](const std::string& word) {
      return word.starts_with("--") && names_key(word.substr(0, word.find('=')), name);
    });
    const bool in_files = std::any_of(files.begin(), files.end(), [&](const NamedFile& file) {
      return file.text.find(leaf(name)) != std::string::npos;
    });
    if (in_words || in_files)
      return bad_input(fmt::format("{} would have to go from the command", path), "take it away by hand");
  }
  for (const NamedFile& file : files) {
    if (!file.changed) continue;
    if (folder.empty()) return bad_input("there is no folder for a changed copy of " + file.path);
    const std::string copy = folder + "/again-" + fs::path(file.path).filename().string();
    PLIMSOLL_TRY_STATUS(write_whole(copy, file.text, Existing::kReplace));
    const std::size_t equals = applied.words[file.word].find('=');
    applied.words[file.word] =
        equals == std::string::npos ? copy : applied.words[file.word].substr(0, equals + 1) + copy;
    std::replace(applied.job_files.begin(), applied.job_files.end(), file.path, copy);
    applied.said.push_back(fmt::format("  {} instead of {}", copy, file.path));
  }
  return applied;
}

}  // namespace plimsoll::live
