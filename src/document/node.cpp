// SPDX-License-Identifier: Apache-2.0
#include "document/node.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::document {

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

Node parse_scalar(std::string_view text) {
  Node node;
  text = trim(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    node.kind = Node::Kind::kString;
    node.text = text.substr(1, text.size() - 2);
    return node;
  }
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    node.kind = Node::Kind::kArray;
    const std::string_view inside = trim(text.substr(1, text.size() - 2));
    if (inside.empty()) return node;
    for (const std::string_view part : split(inside, ',')) node.items.push_back(parse_scalar(part));
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
      failure == std::errc{} && at == end && !text.empty()) {
    node.kind = Node::Kind::kReal;
    node.real = real;
    return node;
  }
  node.kind = Node::Kind::kString;
  node.text = text;
  return node;
}

}  // namespace plimsoll::document
