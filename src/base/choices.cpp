// SPDX-License-Identifier: Apache-2.0
#include "base/choices.h"

#include <algorithm>

namespace plimsoll {

namespace {

char plain(char c) {
  if (c == '-') return '_';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool is_same_word(std::string_view a, std::string_view b) {
  a = trim(a);
  b = trim(b);
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return plain(x) == plain(y); });
}

}  // namespace plimsoll
