// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "rl/observe/readers.h"

namespace plimsoll::rl {

std::optional<double> leading_number(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string digits;
  std::size_t at = 0;
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  for (; at < text.size() && digits.size() < kLongest; ++at) {
    const char c = text[at];
    const bool is_digit = c >= '0' && c <= '9';
    const bool is_exponent_sign = (c == '-' || c == '+') && (digits.empty() || digits.back() == 'e');
    if (c == ',' && at + 1 < text.size() && text[at + 1] >= '0' && text[at + 1] <= '9') continue;
    if (!is_digit && c != '.' && c != 'e' && !is_exponent_sign) break;
    if (c == 'e' && digits.empty()) break;
    digits += c;
  }
  double number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec != std::errc{} || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<double> number_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  return leading_number(line.substr(at + label.size()));
}

}  // namespace plimsoll::rl
