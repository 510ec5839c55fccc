// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_sed.h"

#include "base/text.h"

namespace plimsoll::job {

namespace {

// s/from/to/g, with any sign between the parts. A backslash stands for the sign behind it.
std::optional<SedCommand::Substitution> parse_substitution(std::string_view text) {
  if (text.size() < 4 || text[0] != 's') return std::nullopt;
  const char border = text[1];
  if (border == '\\' || border == '\n') return std::nullopt;
  std::vector<std::string> parts(1);
  bool has_signs = false;
  for (std::size_t at = 2; at < text.size(); ++at) {
    const char c = text[at];
    if (c == border) {
      parts.emplace_back();
    } else if (c == '\\' && at + 1 < text.size()) {
      parts.back() += text[++at];
    } else {
      const std::string_view signs = parts.size() == 1 ? ".*[]^$" : "&";
      has_signs = has_signs || (parts.size() < 3 && signs.find(c) != std::string_view::npos);
      parts.back() += c;
    }
  }
  if (parts.size() != 3 || parts[0].empty() || has_signs) return std::nullopt;
  const std::string_view ends = trim(parts[2]);
  if (!ends.empty() && ends != "g") return std::nullopt;
  return SedCommand::Substitution{std::move(parts[0]), std::move(parts[1]), ends == "g"};
}

}  // namespace

std::optional<SedCommand> parse_sed(const ShellCommand& command) {
  SedCommand parsed;
  const std::vector<ShellWord>& words = command.words;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool is_marked = words[i].text == "-e" && i + 1 < words.size();
    if (is_marked) ++i;
    if (!words[i].unknown.empty()) return std::nullopt;
    const std::string& word = words[i].text;
    if (is_marked || parsed.substitutions.empty()) {
      for (const std::string_view one : split(word, ';')) {
        if (trim(one).empty()) continue;
        auto substitution = parse_substitution(trim(one));
        if (!substitution) return std::nullopt;
        parsed.substitutions.push_back(*std::move(substitution));
      }
    } else if (word.starts_with("-") || !parsed.file.empty()) {
      return std::nullopt;
    } else {
      parsed.file = word;
    }
  }
  return parsed.substitutions.empty() ? std::nullopt : std::optional(std::move(parsed));
}

std::optional<std::string> substitute(const SedCommand& command, std::string_view text, std::size_t most) {
  std::string result(text);
  for (const SedCommand::Substitution& one : command.substitutions) {
    std::string next;
    std::size_t at = 0;
    while (at < result.size()) {
      const std::size_t found = result.find(one.from, at);
      if (found == std::string::npos) break;
      next.append(result, at, found - at).append(one.to);
      at = found + one.from.size();
      if (!one.is_global) {  // the first of each line
        const std::size_t end = std::min(result.find('\n', at), result.size());
        next.append(result, at, end - at);
        at = end;
      }
      if (next.size() > most) return std::nullopt;
    }
    next.append(result, at, std::string::npos);
    if (next.size() > most) return std::nullopt;
    result = std::move(next);
  }
  return result;
}

}  // namespace plimsoll::job
