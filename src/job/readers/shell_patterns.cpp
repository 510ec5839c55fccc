// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_patterns.h"

namespace plimsoll::job {

namespace {

// [abc], [a-z], [!abc]: whether c is in the set that starts at pattern[at]; `at` moves behind it.
bool in_set(std::string_view pattern, std::size_t& at, char c) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); ++i, first = false) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  at = i < pattern.size() ? i + 1 : pattern.size();
  return found != negated;
}

}  // namespace

// Goes back to the last * only, so the time is at most the product of the lengths.
bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
      continue;
    }
    std::size_t next = p;
    bool same = false;
    if (p < pattern.size()) {
      if (pattern[p] == '?') {
        same = true;
        next = p + 1;
      } else if (pattern[p] == '[' && pattern.find(']', p + 2) != std::string_view::npos) {
        same = in_set(pattern, next, text[t]);
      } else {
        same = pattern[p] == text[t];
        next = p + 1;
      }
    }
    if (same) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

// Texts of launch scripts are short; a longer one is left whole rather than searched for minutes.
constexpr std::size_t kMaxEdited = 4096;

}  // namespace

std::string without_prefix(std::string_view text, std::string_view pattern, bool longest) {
  if (text.size() > kMaxEdited) return std::string(text);
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    if (matches_pattern(pattern, text.substr(0, length))) return std::string(text.substr(length));
  }
  return std::string(text);
}

std::string without_suffix(std::string_view text, std::string_view pattern, bool longest) {
  if (text.size() > kMaxEdited) return std::string(text);
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? i : text.size() - i;  // of what is kept
    if (matches_pattern(pattern, text.substr(length))) return std::string(text.substr(0, length));
  }
  return std::string(text);
}

std::optional<std::string> with_replaced(std::string_view text, std::string_view from, std::string_view to, bool all) {
  if (from.empty() || from.find_first_of("*?[") != std::string_view::npos) return std::nullopt;
  if (text.size() > kMaxEdited || to.size() > kMaxEdited) return std::nullopt;
  std::string result;
  while (true) {
    const std::size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    result += text.substr(0, at);
    result += to;
    text.remove_prefix(at + from.size());
    if (!all) break;
  }
  return result.append(text);
}

}  // namespace plimsoll::job
