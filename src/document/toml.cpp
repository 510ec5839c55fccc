// SPDX-License-Identifier: Apache-2.0
// TOML through toml++ without its exceptions. Dates are not used by any job file and become strings.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 64  // kMaxDepth of node.h, which comes after this header
#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif
#include <toml++/toml.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include "document/node.h"

namespace plimsoll::document {

namespace {

Result<Node> convert(const toml::node& source, int depth) {
  Node node;
  node.line = static_cast<int>(source.source().begin.line);
  if (depth > kMaxDepth)
    return bad_input(fmt::format("line {}: TOML is nested deeper than {} levels", node.line, kMaxDepth));
  if (const auto* table = source.as_table()) {
    node.kind = Node::Kind::kObject;
    for (const auto& [key, value] : *table) {
      PLIMSOLL_TRY(child, convert(value, depth + 1));
      node.members.emplace_back(std::string(key.str()), std::move(child));
    }
    // toml++ keeps tables sorted by key; the file's order is what people see in messages.
    std::stable_sort(node.members.begin(), node.members.end(),
                     [](const auto& a, const auto& b) { return a.second.line < b.second.line; });
  } else if (const auto* array = source.as_array()) {
    node.kind = Node::Kind::kArray;
    for (const toml::node& item : *array) {
      PLIMSOLL_TRY(child, convert(item, depth + 1));
      node.items.push_back(std::move(child));
    }
  } else if (const auto* flag = source.as_boolean()) {
    node.kind = Node::Kind::kBool;
    node.boolean = flag->get();
  } else if (const auto* integer = source.as_integer()) {
    node.kind = Node::Kind::kInteger;
    node.integer = integer->get();
  } else if (const auto* real = source.as_floating_point()) {
    node.kind = Node::Kind::kReal;
    node.real = real->get();
  } else if (const auto* text = source.as_string()) {
    node.kind = Node::Kind::kString;
    node.text = text->get();
  } else {
    node.kind = Node::Kind::kString;
    std::ostringstream out;
    source.visit([&out](const auto& value) {
      if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                    toml::is_date_time<decltype(value)>)
        out << value;
    });
    node.text = out.str();
  }
  return node;
}

// A dotted key opens one table per dot, and toml++ destroys them by recursion, so a key of 100,000 dots
// would exhaust the stack. Dots are counted between the characters that end a key; quoted parts of a key
// may hold those characters and are skipped. Returns the offending line, or 0.
int line_of_overlong_key(std::string_view text) {
  int line = 1;
  int dots = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = 0;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.') {
      if (++dots > kMaxDepth) return line;
    } else if (std::string_view{",=[]{}"}.find(c) != std::string_view::npos) {
      dots = 0;
    } else if (c == '#') {
      const std::size_t end = text.find('\n', i);
      if (end == std::string_view::npos) return 0;
      i = end - 1;
    }
  }
  return 0;
}

}  // namespace

Result<Node> parse_toml(std::string_view text) {
  if (const int line = line_of_overlong_key(text); line > 0)
    return bad_input(fmt::format("line {}: a key of more than {} parts", line, kMaxDepth));
  static_assert(TOML_MAX_NESTED_VALUES == kMaxDepth);
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed)
    return bad_input(fmt::format("line {}: not valid TOML: {}", parsed.error().source().begin.line,
                                 std::string_view(parsed.error().description())));
  return convert(parsed.table(), 0);
}

}  // namespace plimsoll::document
