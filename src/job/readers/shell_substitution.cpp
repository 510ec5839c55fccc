// SPDX-License-Identifier: Apache-2.0
// Where a substitution starts and ends: $(...), $((...)), $[...] (arithmetic of old scripts), ${...} and `...`.
#include <algorithm>
#include <string>

#include "job/readers/shell_syntax.h"

namespace plimsoll::job {

bool opens_substitution(std::string_view text, std::size_t at) {
  if (text[at] == '`') return true;
  if (text[at] != '$' || at + 1 >= text.size()) return false;
  const char next = text[at + 1];
  // Unclosed it is a pattern ("^a$[0-9"); looked for near by only, because a text may hold many.
  constexpr std::size_t kLongest = 4096;
  if (next == '[')
    return end_of_substitution(text.substr(0, std::min(text.size(), at + kLongest)), at) != std::string_view::npos;
  return next == '(' || next == '{';
}

std::size_t end_of_substitution(std::string_view text, std::size_t at) {
  if (text[at] == '`') {
    const std::size_t end = text.find('`', at + 1);
    return end == std::string_view::npos ? end : end + 1;
  }
  std::string closers;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' && (closers.empty() || closers.back() != '"')) {
      i = text.find('\'', i + 1);
      if (i == std::string_view::npos) return i;
    } else if (c == '"') {
      if (!closers.empty() && closers.back() == '"') {
        closers.pop_back();
      } else {
        closers += '"';
      }
    } else if (c == '(' || c == '{') {
      if (closers.empty() || closers.back() != '"' || text[i - 1] == '$') closers += c == '(' ? ')' : '}';
    } else if (c == '[' && text[i - 1] == '$') {
      closers += ']';
    } else if (!closers.empty() && c == closers.back()) {
      closers.pop_back();
      if (closers.empty()) return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace plimsoll::job
