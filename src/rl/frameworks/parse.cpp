// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "base/lines.h"
#include "base/text.h"
#include "job/readers/omega.h"
#include "job/readers/resolve.h"
#include "job/readers/shell.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

job::ShellOptions beside(const std::string& path) {
  job::ShellOptions options;
  options.path = path;
  options.read_file = [path](const std::string& name) -> std::optional<std::string> {
    const auto found = job::locate(name, parent_folder(path));
    if (!found) return std::nullopt;
    auto read = job::read_named_file(*found);
    return read ? std::optional(*std::move(read)) : std::nullopt;
  };
  return options;
}

namespace {

using document::Node;

void flatten(const Node& node, const std::string& prefix, Values& values) {
  for (const auto& [key, value] : node.members) {
    std::string path = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object()) {
      flatten(value, path, values);
    } else if (!value.is_string() || value.text != "???") {  // OmegaConf's word for a value that must still be given
      values.put(std::move(path), value);
    }
  }
}

// The command of a script that has most words of the wanted kind.
template <class Counts>
Result<std::vector<job::ShellWord>> find_command(std::string_view text, const std::string& path, const Counts& counts) {
  PLIMSOLL_TRY(shell, job::read_shell(text, beside(path)));
  std::vector<job::ShellWord> best;
  std::int64_t most = 0;
  for (job::ShellCommand& command : shell.commands) {
    const auto count = std::count_if(command.words.begin(), command.words.end(), counts);
    if (count <= most) continue;
    most = count;
    best = std::move(command.words);
  }
  if (most == 0 && std::any_of(shell.unused.begin(), shell.unused.end(), counts)) return shell.unused;
  return best;
}

bool is_path(std::string_view text) {
  if (text.find('.') == std::string_view::npos) return false;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') return false;
  return true;
}

}  // namespace

Result<Values> parse_tree(const Result<Node>& root) {
  if (!root) return tl::make_unexpected(root.error());
  if (!root->is_object()) return bad_input("wanted a table of keys");
  Values values;
  flatten(*root, "", values);
  return values;
}

Result<Values> parse_configured(std::string_view text, const std::string& file) {
  const auto is_own = [](const job::ShellWord& word) {
    return !job::split_override(word.text).path.empty() || word.text.find(".yaml") != std::string::npos;
  };
  PLIMSOLL_TRY(words, find_command(text, file, is_own));
  PLIMSOLL_TRY(configured, job::read_configured_command(words, parent_folder(file)));
  job::interpolate(configured.root);
  PLIMSOLL_TRY(values, parse_tree(configured.root));
  for (auto& [path, variable] : configured.unknown) values.put_unknown(path, variable);
  return values;
}

bool is_yaml(std::string_view text) {
  for (const std::string_view raw : lines(text.substr(0, 1 << 16))) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line == "---") continue;
    const std::size_t colon = line.find(':');
    return colon != std::string_view::npos && line.substr(0, colon).find_first_of(" =$") == std::string_view::npos;
  }
  return false;
}

Result<Values> parse_overrides(std::string_view text, const std::string& file) {
  const auto split_word = [](const job::ShellWord& word) -> std::pair<std::string_view, std::string_view> {
    const std::size_t equals = word.text.find('=');
    if (equals == std::string::npos) return {};
    std::string_view path = std::string_view{word.text}.substr(0, equals);
    while (path.starts_with('+') || path.starts_with('~')) path.remove_prefix(1);
    if (!is_path(path)) return {};
    return {path, std::string_view{word.text}.substr(equals + 1)};
  };
  PLIMSOLL_TRY(words,
               find_command(text, file, [&](const job::ShellWord& word) { return !split_word(word).first.empty(); }));
  Values values;
  // A configuration of one's own lies below the overrides; those of the package hold its defaults.
  if (auto configured = job::read_configured_command(words, parent_folder(file));
      configured && !configured->path.empty()) {
    job::interpolate(configured->root);
    PLIMSOLL_TRY(below, parse_tree(configured->root));
    values = std::move(below);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const job::ShellWord& word = words[i];
    constexpr std::string_view kConfig = "--config-name";
    if (word.text.starts_with(kConfig)) {
      const bool is_next = word.text == kConfig && i + 1 < words.size();
      values.put("config-name",
                 document::parse_scalar(is_next ? words[i + 1].text
                                                : word.text.substr(std::min(word.text.size(), kConfig.size() + 1))));
      continue;
    }
    const auto [path, value] = split_word(word);
    if (path.empty()) continue;
    if (!word.unknown.empty())
      values.put_unknown(std::string{path}, word.unknown.front());
    else
      values.put(std::string{path}, document::parse_scalar(value));
  }
  return values;
}

Result<Values> parse_flags(std::string_view text, const std::string& file) {
  const auto is_own = [](const job::ShellWord& word) {
    if (!word.text.starts_with("--")) return false;
    const std::string_view name = std::string_view{word.text}.substr(2, word.text.find('=') - 2);
    return is_path(name) || !current_openrlhf_name(name).empty();
  };
  PLIMSOLL_TRY(words, find_command(text, file, is_own));
  Values values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_own(words[i])) continue;
    const std::string_view word = std::string_view{words[i].text}.substr(2);
    const std::size_t equals = word.find('=');
    std::string path{word.substr(0, equals)};
    if (const std::string_view current = current_openrlhf_name(path); !current.empty()) path = current;
    // "$@" adds flags; it is no value.
    const bool adds_flags = i + 1 < words.size() && words[i + 1].text.empty() && !words[i + 1].unknown.empty() &&
                            (words[i + 1].unknown.front() == "@" || words[i + 1].unknown.front() == "*");
    const bool takes_next =
        equals == std::string_view::npos && i + 1 < words.size() && !words[i + 1].text.starts_with("--") && !adds_flags;
    const job::ShellWord& from = takes_next ? words[i + 1] : words[i];
    if (!from.unknown.empty() && (takes_next || equals != std::string_view::npos)) {
      values.put_unknown(path, from.unknown.front());
    } else if (equals != std::string_view::npos) {
      values.put(path, document::parse_scalar(word.substr(equals + 1)));
    } else {
      values.put(path, document::parse_scalar(takes_next ? std::string_view{from.text} : std::string_view{"true"}));
    }
    if (takes_next) ++i;
  }
  return values;
}

Settings parse_directives(std::string_view text) {
  constexpr std::string_view kSign = "# plimsoll: ";
  Settings settings;
  for (const std::string_view line : lines(text)) {
    const std::string_view body = trim(line);
    if (!body.starts_with(kSign)) continue;
    const std::string_view pair = body.substr(kSign.size());
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    put_setting(settings, trim(pair.substr(0, equals)), std::string{trim(pair.substr(equals + 1))});
  }
  return settings;
}

}  // namespace plimsoll::rl
