// SPDX-License-Identifier: Apache-2.0
// A command with a file of settings below it: "--config-name sft model=llama ++lr=1e-5".
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/readers/omega.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

Node empty_table() {
  Node node;
  node.kind = Node::Kind::kObject;
  return node;
}

bool is_dotted_path(std::string_view text) {
  if (text.empty() || text.find('=') != std::string_view::npos || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '@' || c == '/';
  });
}

}  // namespace

Override split_override(std::string_view word) {
  if (word.starts_with('~')) return is_dotted_path(word.substr(1)) ? Override{word.substr(1), {}, true} : Override{};
  while (word.starts_with('+')) word.remove_prefix(1);
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || !is_dotted_path(word.substr(0, equals))) return {};
  return {word.substr(0, equals), word.substr(equals + 1), false};
}

namespace {

// Where Hydra's programs keep their trees, beside the program or above it.
Result<std::string> locate_configuration(const std::string& name, const std::string& folder,
                                         const std::string& program) {
  auto found = locate(name, folder);
  if (found || name.front() == '/') return found;
  const std::string beside = program.find('/') == std::string::npos ? std::string{} : parent_folder(program) + "/";
  for (const std::string& start : {std::string{}, beside})
    for (const std::string_view place : {"", "conf/", "config/", "configs/"})
      if (auto other = locate(start + std::string(place) + name, folder)) return other;
  return found;
}

// "model=llama" names a file of a group beside the configuration, in place of the one that its defaults name.
Result<bool> take_group(const Override& given, const std::string& folder, Node& root) {
  if (folder.empty() || given.value.empty() || given.path.find('.') != std::string_view::npos) return false;
  const std::string path = fmt::format("{}/{}/{}.yaml", folder, given.path, given.value);
  if (!file_exists(path)) return false;
  PLIMSOLL_TRY(text, read_named_file(path));
  auto inner = load_omega(text, path);
  if (!inner) return tl::make_unexpected(std::move(inner.error()).with_context(path));
  if (!inner->is_object()) return false;
  if (package_in_comment(text) == std::string{}) {
    lay_over(*inner, root);
  } else {
    put_path(root, replace(given.path, '/', '.'), *std::move(inner));
  }
  return true;
}

}  // namespace

Result<Configured> read_configured_command(std::span<const ShellWord> words, const std::string& folder,
                                           const std::string& program) {
  std::string name;
  std::string config_folder;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const auto value_of = [&](std::string_view flag) -> std::optional<std::string> {
      if (word == flag) return i + 1 < words.size() ? std::optional(words[i + 1].text) : std::nullopt;
      if (word.starts_with(flag) && word.size() > flag.size() && word[flag.size()] == '=')
        return word.substr(flag.size() + 1);
      return std::nullopt;
    };
    for (const char* flag : {"--config", "--config-name", "--config_name", "--config-file", "--config_file", "-c", "@",
                             "--job.config_file"})
      if (const auto value = value_of(flag)) name = *value;
    if (word.size() > 1 && word.front() == '@') name = word.substr(1);
    // OmegaConf.from_cli: "config=run.yaml" before the other words.
    if (word.starts_with("config=") && word.find(".y") != std::string::npos) name = word.substr(7);
    for (const char* flag : {"--config-path", "--config_path", "--config-dir"})
      if (const auto value = value_of(flag)) config_folder = *value;
  }
  Configured configured;
  configured.root = empty_table();
  if (!name.empty()) {
    const bool is_toml = name.ends_with(".toml");
    if (!is_toml && name.find(".y") == std::string::npos) name += ".yaml";
    if (!config_folder.empty() && name.front() != '/') name = config_folder + "/" + name;
    PLIMSOLL_TRY(found, locate_configuration(name, folder, program));
    PLIMSOLL_TRY(text, read_named_file(found));
    auto root = is_toml ? document::parse_toml(text) : load_omega(text, found);
    if (!root) return tl::make_unexpected(std::move(root.error()).with_context(found));
    if (!root->is_object()) return bad_input(fmt::format("{}: wanted a table of keys", found));
    configured.root = *std::move(root);
    configured.path = found;
  }
  // Hydra's usual name, where the command leaves it to the program.
  if (name.empty() && !program.empty())
    if (const auto found = locate_configuration("config.yaml", folder, program)) {
      PLIMSOLL_TRY(text, read_named_file(*found));
      if (auto root = load_omega(text, *found); root && root->is_object()) {
        configured.root = *std::move(root);
        configured.path = *found;
      }
    }
  const std::string groups = configured.path.empty() ? std::string{} : parent_folder(configured.path);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    // "--training.steps 10" of torchtitan and prime-rl.
    const bool is_dotted_flag = word.text.starts_with("--") && word.text.find('.') < word.text.find('=') &&
                                word.text.find('.') != std::string::npos;
    if (is_dotted_flag && word.text != "--job.config_file") {
      const std::string_view bare = std::string_view(word.text).substr(2);
      const std::size_t equals = bare.find('=');
      const std::string path = replace(bare.substr(0, equals), '-', '_');
      const bool takes_next =
          equals == std::string_view::npos && i + 1 < words.size() && !words[i + 1].text.starts_with("--");
      if (takes_next && !words[i + 1].unknown.empty()) {
        configured.unknown.emplace_back(path, words[i + 1].unknown.front());
      } else {
        const std::string_view value = takes_next                         ? std::string_view(words[i + 1].text)
                                       : equals == std::string_view::npos ? "true"
                                                                          : bare.substr(equals + 1);
        put_path(configured.root, path, document::parse_scalar(value));
      }
      continue;
    }
    const Override given = split_override(word.text);
    if (given.path.empty()) continue;
    if (word.unknown.empty() && !given.deletes) {
      PLIMSOLL_TRY(is_group, take_group(given, groups, configured.root));
      if (is_group) continue;
    }
    if (given.deletes) {
      put_path(configured.root, given.path, Node{});
    } else if (!word.unknown.empty()) {
      configured.unknown.emplace_back(given.path, word.unknown.front());
    } else {
      put_path(configured.root, given.path, document::parse_scalar(given.value));
    }
  }
  return configured;
}

}  // namespace plimsoll::job
