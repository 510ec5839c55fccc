// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "base/spelling.h"

namespace plimsoll {

namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
char to_lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Levenshtein distance with one row; words are short.
}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t replaced = diagonal + (to_lower(a[i - 1]) == to_lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result{text};
  std::transform(result.begin(), result.end(), result.begin(), to_lower);
  return result;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return to_lower(x) == to_lower(y); });
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string replace(std::string_view text, char from, char to) {
  std::string result{text};
  std::replace(result.begin(), result.end(), from, to);
  return result;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

namespace {

// One letter more, less, changed or swapped with the next.
bool differs_by_one(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin());
  const std::string_view rest_a = a.substr(static_cast<std::size_t>(left - a.begin()));
  const std::string_view rest_b = b.substr(static_cast<std::size_t>(right - b.begin()));
  if (a.size() != b.size()) return rest_a == rest_b.substr(1);
  if (rest_a.empty() || rest_a.substr(1) == rest_b.substr(1)) return true;
  return rest_a.size() > 1 && rest_a[0] == rest_b[1] && rest_a[1] == rest_b[0] && rest_a.substr(2) == rest_b.substr(2);
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > 200) return {};
  // Of a short word two wrong letters are most of it: trl is not verl, set is not peft.
  constexpr std::size_t kShort = 4;
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (word.size() <= kShort && !differs_by_one(lower(word), lower(candidate))) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

namespace {

// Bytes of the escape sequence that begins at `at`: ESC [ ... letter, ESC ] ... BEL or ESC \, else ESC and one more.
std::size_t escape_length(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size()) return 1;
  std::size_t end = at + 2;
  if (text[at + 1] == '[') {
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size()) - at;
  }
  if (text[at + 1] == ']') {
    while (end < text.size() && text[end] != '\a' && text[end] != '\x1b') ++end;
    if (end + 1 < text.size() && text[end] == '\x1b' && text[end + 1] == '\\') ++end;
    return std::min(end + 1, text.size()) - at;
  }
  return 2;
}

// Length of the UTF-8 character at `at` and its code point; 0 where the bytes are none.
std::size_t utf8_length(std::string_view text, std::size_t at, std::uint32_t* code) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || at + length > text.size()) return 0;
  *code = length == 1 ? first : first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0U) != 0x80U) return 0;
    *code = (*code << 6U) | (next & 0x3FU);
  }
  return length;
}

bool is_shown(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return !control && !turns && !surrogate && code <= 0x10FFFF;
}

}  // namespace

std::string printable(std::string_view text, std::size_t cap) {
  std::string out;
  std::size_t fits = 0;  // length of `out` that leaves room for the dots
  for (std::size_t at = 0; at < text.size();) {
    std::uint32_t code = 0;
    std::size_t length = utf8_length(text, at, &code);
    std::string_view shown = text.substr(at, length);
    if (text[at] == '\x1b') {
      length = escape_length(text, at);
      shown = "";
    } else if (text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
      shown = " ";
    } else if (length == 0 || !is_shown(code)) {
      length = std::max<std::size_t>(length, 1);
      shown = "?";
    }
    if (out.size() + shown.size() > cap) {
      out.resize(fits);
      out.append("...", std::min<std::size_t>(3, cap));
      return out;
    }
    out += shown;
    at += length;
    if (out.size() + 3 <= cap) fits = out.size();
  }
  return out;
}

}  // namespace plimsoll
