// SPDX-License-Identifier: Apache-2.0
#include "why/command_line.h"

#include <algorithm>

#include "base/text.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// Where the first flag begins: "--" before a letter, after a blank or a quote.
std::size_t first_flag(std::string_view text) {
  for (std::size_t at = text.find("--"); at != kNone; at = text.find("--", at + 2)) {
    const bool begins = at == 0 || is_blank(text[at - 1]) || text[at - 1] == '\'' || text[at - 1] == '"';
    if (begins && at + 2 < text.size() && is_letter(text[at + 2])) return at;
  }
  return kNone;
}

bool names_program(std::string_view before) {
  return has_any(before, {"python", ".py", ".sh", "torchrun", "accelerate", "srun ", "mpirun", "cmd =", "serve ",
                          "launch", "swift ", "-cli "}) &&
         !has_any(before, {"`", "try ", "consider", "please", "usage", "instead", "use "});
}

// The words of a command; a list that Python has printed is one without its quotes and commas.
std::vector<std::string_view> words_of(std::string_view text) {
  const bool listed = text.find("'--") != kNone;
  if (listed) text = text.substr(0, text.find(']'));
  const auto ends = [listed](char c) { return is_blank(c) || (listed && (c == '\'' || c == ',')); };
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    while (at < text.size() && ends(text[at])) ++at;
    std::size_t end = at;
    while (end < text.size() && !ends(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

bool is_flag(std::string_view word) { return word.size() > 2 && word.starts_with("--") && is_letter(word[2]); }

}  // namespace

std::vector<std::pair<std::string, std::string>> command_flags(std::string_view text) {
  constexpr std::size_t kMost = 512;
  const std::size_t first = first_flag(text);
  if (first == kNone) return {};
  // A line of flags alone goes on from the one above it.
  const bool goes_on = trim(text.substr(0, first)).empty();
  if (!goes_on && !names_program(text.substr(0, first))) return {};
  const std::size_t from = first > 0 && text[first - 1] == '\'' ? first - 1 : first;
  std::vector<std::pair<std::string, std::string>> flags;
  bool has_value = true;
  for (const std::string_view word : words_of(text.substr(from))) {
    if (word == "\\" || flags.size() >= kMost) break;
    if (is_flag(word)) {
      const std::size_t sign = word.find('=');
      std::string name{word.substr(2, sign == kNone ? kNone : sign - 2)};
      std::replace(name.begin(), name.end(), '-', '_');
      flags.emplace_back(std::move(name), sign == kNone ? "true" : std::string{cut_text(word.substr(sign + 1), 200)});
      has_value = sign != kNone;
    } else if (!has_value) {
      flags.back().second = std::string{cut_text(word, 200)};
      has_value = true;
    } else if (goes_on) {
      return {};  // more words than a flag has: a help text
    }
  }
  // "--lr LR": what a usage text has for a value.
  std::erase_if(flags, [](const auto& flag) { return equals_ignoring_case(flag.first, flag.second); });
  return flags;
}

}  // namespace plimsoll::why
