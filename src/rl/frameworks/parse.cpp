// SPDX-License-Identifier: Apache-2.0
#include <cctype>

#include "base/text.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

namespace {

using document::Node;

void flatten(const Node& node, const std::string& prefix, Values& values) {
  for (const auto& [key, value] : node.members) {
    std::string path = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object())
      flatten(value, path, values);
    else
      values.put(std::move(path), value);
  }
}

constexpr std::string_view kEnd = ";";  // stands for the end of a command or line

// The words of a script: quotes and backslashes undone, comments and line continuations gone, kEnd where a line ends.
// Variables are not expanded: a value that needs them stays as it is written and is refused by whoever wants a number.
std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  const auto end_word = [&] {
    if (in_word) words.push_back(std::move(word));
    word.clear();
    in_word = false;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\'' || c == '"') {
      in_word = true;
      for (++at; at < text.size() && text[at] != c; ++at) {
        if (c == '"' && text[at] == '\\' && at + 1 < text.size()) ++at;
        word += text[at];
      }
    } else if (c == '\\' && at + 1 < text.size()) {
      ++at;
      if (text[at] == '\n' || text[at] == '\r') {
        end_word();
      } else {
        in_word = true;
        word += text[at];
      }
    } else if (c == '#' && !in_word) {
      while (at + 1 < text.size() && text[at + 1] != '\n') ++at;
    } else if (c == '\n' || c == '(' || c == ')' || c == ';') {
      end_word();
      words.emplace_back(kEnd);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else {
      in_word = true;
      word += c;
    }
  }
  end_word();
  return words;
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

Values parse_overrides(std::string_view text) {
  Values values;
  for (const std::string& word : shell_words(text)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    std::string_view path = std::string_view{word}.substr(0, equals);
    while (path.starts_with('+') || path.starts_with('~')) path.remove_prefix(1);
    if (is_path(path)) values.put(std::string{path}, document::parse_scalar(word.substr(equals + 1)));
  }
  return values;
}

Values parse_flags(std::string_view text) {
  Values values;
  const std::vector<std::string> words = shell_words(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (!word.starts_with("--")) continue;
    word.remove_prefix(2);
    const std::size_t equals = word.find('=');
    const std::string_view path = word.substr(0, equals);
    if (!is_path(path)) continue;
    if (equals != std::string_view::npos) {
      values.put(std::string{path}, document::parse_scalar(word.substr(equals + 1)));
    } else if (i + 1 < words.size() && words[i + 1] != kEnd && !words[i + 1].starts_with("--")) {
      values.put(std::string{path}, document::parse_scalar(words[++i]));
    } else {
      values.put(std::string{path}, document::parse_scalar("true"));
    }
  }
  return values;
}

Settings parse_directives(std::string_view text) {
  constexpr std::string_view kSign = "# plimsoll: ";
  Settings settings;
  for (const std::string_view line : split(text, '\n')) {
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
