// SPDX-License-Identifier: Apache-2.0
// Small text functions that the standard library lacks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

[[nodiscard]] std::string_view trim(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] bool equals_ignoring_case(std::string_view a, std::string_view b);
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
// Every `from` becomes `to`: replace("a-b", '-', '_') is "a_b".
[[nodiscard]] std::string replace(std::string_view text, char from, char to);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Text of an input as a terminal may show it: control characters, escape sequences, broken UTF-8 and marks that
// turn the direction of writing become "?" or vanish, tabs and line ends become blanks. At most `cap` bytes, "..."
// included where it was cut.
[[nodiscard]] std::string printable(std::string_view text, std::size_t cap);

// The candidate that a mistyped word was meant to be, or "" when none is near: edit distance of at
// most a third of the word's length.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace plimsoll
