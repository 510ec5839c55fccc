// SPDX-License-Identifier: Apache-2.0
// What Python's operators, conversions and strings make of known values; nothing where that is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/readers/python_expression.h"

namespace plimsoll::job {

// Of a tree, itself included.
[[nodiscard]] std::int64_t count_values(const document::Node& node);

// + - * / // % ** of numbers; + of strings and of lists.
[[nodiscard]] std::optional<document::Node> python_arithmetic(const document::Node& left, std::string_view sign,
                                                              const document::Node& right);
// == != < <= > >=
[[nodiscard]] std::optional<document::Node> python_compare(const document::Node& left, std::string_view sign,
                                                           const document::Node& right);
// int(x), float(x), str(x), bool(x), len(x), min(...), max(...), tuple(x), list(x)
[[nodiscard]] std::optional<document::Node> python_builtin(std::string_view name,
                                                           const std::vector<document::Node>& arguments);

struct PythonString {
  std::string text;
  std::size_t length = 0;  // in the source, with prefix and quotes
  bool is_formatted = false;
};
// The string literal at the start of `text`: '...', "...", three quotes, with r, b, u or f before.
[[nodiscard]] std::optional<PythonString> python_string(std::string_view text);

// f"a{name}": names alone are put in.
[[nodiscard]] std::optional<std::string> python_format(std::string_view text, const PythonNames& names);

}  // namespace plimsoll::job
