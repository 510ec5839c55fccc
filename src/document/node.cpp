// SPDX-License-Identifier: Apache-2.0
#include "document/node.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::document {

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

std::string_view kind_name(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return "a boolean";
    case Node::Kind::kInteger:
      return "an integer";
    case Node::Kind::kReal:
      return "a number";
    case Node::Kind::kString:
      return "a string";
    case Node::Kind::kArray:
      return "a list";
    case Node::Kind::kObject:
      return "a table";
  }
  return "nothing";
}

std::string to_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return node.boolean ? "true" : "false";
    case Node::Kind::kInteger:
      return std::to_string(node.integer);
    case Node::Kind::kReal:
      return fmt::format("{}", node.real);
    case Node::Kind::kString:
      return node.text;
    case Node::Kind::kArray: {
      std::vector<std::string> parts;
      for (const Node& item : node.items) parts.push_back(to_text(item));
      return "[" + join(parts, ", ") + "]";
    }
    case Node::Kind::kObject:
      return fmt::format("a table of {} keys", node.members.size());
  }
  return {};
}

namespace {

// The elements of "a, [b, c], 'd, e'": commas inside brackets and quotes do not separate.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Node string_node(std::string_view text) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = text;
  return node;
}

Node parse_value(std::string_view text, int depth) {
  Node node;
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return string_node(text.substr(1, text.size() - 2));
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    if (depth >= kMaxDepth) return string_node(text);
    node.kind = Node::Kind::kArray;
    const std::string_view inside = trim(text.substr(1, text.size() - 2));
    if (inside.empty()) return node;
    for (const std::string_view part : split_list(inside)) node.items.push_back(parse_value(part, depth + 1));
    return node;
  }
  if (equals_ignoring_case(text, "true") || equals_ignoring_case(text, "false")) {
    node.kind = Node::Kind::kBool;
    node.boolean = equals_ignoring_case(text, "true");
    return node;
  }
  if (equals_ignoring_case(text, "null") || equals_ignoring_case(text, "none")) return node;
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [at, failure] = std::from_chars(text.data(), end, integer);
      failure == std::errc{} && at == end && !text.empty()) {
    node.kind = Node::Kind::kInteger;
    node.integer = integer;
    return node;
  }
  double real = 0;
  if (const auto [at, failure] = std::from_chars(text.data(), end, real);
      failure == std::errc{} && at == end && !text.empty() && std::isfinite(real)) {
    node.kind = Node::Kind::kReal;
    node.real = real;
    return node;
  }
  return string_node(text);
}

}  // namespace

Node parse_scalar(std::string_view text) { return parse_value(text, 0); }

}  // namespace plimsoll::document
