// SPDX-License-Identifier: Apache-2.0
// Reading words and sizes out of log lines without regular expressions. Searches ignore the case of
// ASCII letters. A size keeps the meaning that the tools of this field give it: GB, GiB and G are all
// 2^30 bytes, because PyTorch, DeepSpeed, XLA and vLLM divide by 1024 whatever they print.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace plimsoll::why {

inline constexpr std::size_t kNone = std::string_view::npos;

[[nodiscard]] constexpr char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
[[nodiscard]] constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }
// Of an identifier: letters, digits, underscore.
[[nodiscard]] constexpr bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Position of `what` (lower case) at or after `from`, or kNone.
[[nodiscard]] std::size_t find_word(std::string_view text, std::string_view what, std::size_t from = 0);
[[nodiscard]] bool has_text(std::string_view text, std::string_view what);
[[nodiscard]] bool has_any(std::string_view text, std::initializer_list<std::string_view> what);
// The same, but not inside a longer identifier: "eval" in "eval()" but not in "evaluate".
[[nodiscard]] bool has_whole(std::string_view text, std::string_view what);

// A whole number at the beginning of the text, after blanks.
[[nodiscard]] std::optional<std::int64_t> leading_integer(std::string_view text);
// A decimal number at the beginning; `length` is what it took, blanks included.
[[nodiscard]] std::optional<double> leading_number(std::string_view text, std::size_t* length = nullptr);

// "1.96 GiB", "0 bytes", "14.42G", "31451456kB" at the beginning of the text. Without a unit: nullopt.
[[nodiscard]] std::optional<std::int64_t> leading_size(std::string_view text, std::size_t* length = nullptr);
// The size that follows the first `label` (blanks and ':', '=' between), or that precedes it.
[[nodiscard]] std::optional<std::int64_t> size_after(std::string_view text, std::string_view label);
[[nodiscard]] std::optional<std::int64_t> size_before(std::string_view text, std::string_view label);
// The whole number that follows `label`.
[[nodiscard]] std::optional<std::int64_t> integer_after(std::string_view text, std::string_view label);

// The bytes of one unit ("GiB", "MB", "kB", "bytes", "g"), or 0.
[[nodiscard]] std::int64_t unit_bytes(std::string_view unit);

// At most `most` bytes, not cutting a UTF-8 character.
[[nodiscard]] std::string_view cut_text(std::string_view text, std::size_t most);

}  // namespace plimsoll::why
