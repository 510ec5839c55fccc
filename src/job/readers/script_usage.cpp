// SPDX-License-Identifier: Apache-2.0
#include "job/readers/script_usage.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::job {

namespace {

constexpr std::size_t kMostLines = 2000;
constexpr std::size_t kMostWords = 12;

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view raw : split(line, ' '))
    if (const std::string_view word = trim(raw); !word.empty()) words.emplace_back(word);
  return words;
}

bool has_hole(std::string_view word) { return word.find_first_of("<>[]{}$|`\\") != std::string_view::npos; }

std::string_view without_quotes(std::string_view word) {
  while (!word.empty() && (word.front() == '"' || word.front() == '\'')) word.remove_prefix(1);
  while (!word.empty() && (word.back() == '"' || word.back() == '\'' || word.back() == ';')) word.remove_suffix(1);
  return word;
}

bool is_plain(std::string_view word) {
  return !word.empty() && word.size() <= 60 &&
         std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c != '*' && c != '$' && c != '"'; });
}

void add(std::vector<std::string>& words, std::string_view word) {
  if (!is_plain(word) || words.size() >= kMostWords) return;
  if (std::find(words.begin(), words.end(), word) == words.end()) words.emplace_back(word);
}

// "$NAME", "${NAME}", also quoted.
bool names(std::string_view word, std::string_view variable) {
  word = without_quotes(word);
  if (!word.starts_with("$")) return false;
  word.remove_prefix(1);
  if (word.starts_with("{") && word.ends_with("}")) word = word.substr(1, word.size() - 2);
  return word == variable;
}

}  // namespace

std::vector<std::string> arguments_in_comment(std::string_view text, std::string_view path) {
  const std::string_view own = file_name(path);
  std::size_t lines = 0;
  for (const std::string_view raw : split(text, '\n')) {
    if (++lines > kMostLines) break;
    std::string_view line = trim(raw);
    if (!line.starts_with("#") || line.starts_with("#!")) continue;
    while (line.starts_with("#")) line.remove_prefix(1);
    const std::vector<std::string> words = words_of(line);
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      const bool is_shell = words[i] == "sh" || words[i] == "bash";
      if (!is_shell || file_name(words[i + 1]) != own) continue;
      std::vector<std::string> arguments(words.begin() + static_cast<std::ptrdiff_t>(i) + 2, words.end());
      const auto comment = std::find(arguments.begin(), arguments.end(), "#");
      arguments.erase(comment, arguments.end());
      if (!arguments.empty() && std::none_of(arguments.begin(), arguments.end(), has_hole)) return arguments;
    }
  }
  return {};
}

std::vector<std::string> known_words(std::string_view text, std::string_view variable) {
  std::vector<std::string> found;
  std::vector<std::string> spellings = {std::string(variable)};
  bool in_case = false;
  std::size_t lines = 0;
  for (const std::string_view raw : split(text, '\n')) {
    if (++lines > kMostLines) break;
    const std::string_view line = trim(raw);
    if (line.starts_with("#")) continue;
    // NAME=$1 and NAME=${1:-x} are the argument under a name.
    const std::size_t equals = line.find('=');
    const bool renames = equals != std::string_view::npos && equals > 0 && line.find(' ') > equals &&
                         names(line.substr(equals + 1), variable);
    if (renames) spellings.emplace_back(line.substr(0, equals));
    const std::vector<std::string> words = words_of(line);
    const auto is_variable = [&spellings](const std::string& word) {
      return std::any_of(spellings.begin(), spellings.end(),
                         [&word](const std::string& spelling) { return names(word, spelling); });
    };
    for (std::size_t i = 0; i + 2 < words.size(); ++i)
      if (is_variable(words[i]) && (words[i + 1] == "=" || words[i + 1] == "==" || words[i + 1] == "-eq"))
        add(found, without_quotes(words[i + 2]));
    if (words.size() >= 3 && words[0] == "case" && is_variable(words[1])) in_case = true;
    if (line.starts_with("esac")) in_case = false;
    if (const std::size_t end = line.find(')'); in_case && end != std::string_view::npos && line.find('(') > end)
      for (const std::string_view word : split(line.substr(0, end), '|')) add(found, without_quotes(trim(word)));
  }
  return found;
}

}  // namespace plimsoll::job
