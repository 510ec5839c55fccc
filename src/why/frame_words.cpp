// SPDX-License-Identifier: Apache-2.0
#include "why/frame_words.h"

#include "base/text.h"
#include "why/words.h"

namespace plimsoll::why {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == kNone ? path : path.substr(slash + 1);
}

bool name_has(std::string_view function, std::string_view word) {
  for (std::size_t at = find_word(function, word); at != kNone; at = find_word(function, word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool starts = at == 0 || !is_letter(function[at - 1]) || (function[at] >= 'A' && function[at] <= 'Z');
    const bool ends =
        end == function.size() || !is_letter(function[end]) || (function[end] >= 'A' && function[end] <= 'Z');
    if (starts && ends) return true;
  }
  return false;
}

bool name_has_any(std::string_view function, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (name_has(function, word)) return true;
  return false;
}

std::string_view callee(std::string_view code) {
  const std::size_t open = code.find('(');
  if (open == kNone) return {};
  std::size_t begin = open;
  while (begin > 0 && is_word(code[begin - 1])) --begin;
  return code.substr(begin, open - begin);
}

}  // namespace plimsoll::why
