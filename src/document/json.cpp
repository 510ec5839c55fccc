// SPDX-License-Identifier: Apache-2.0
// JSON through simdjson's DOM parser. Lone NaN and Infinity, as Python's json writes them, are refused
// by simdjson with a clear message; no configuration needs them.
#include <fmt/format.h>
#include <simdjson.h>

#include "document/node.h"

namespace plimsoll::document {

namespace {

Result<Node> convert(const simdjson::dom::element& element, int depth) {
  Node node;
  if (depth > kMaxDepth) return bad_input(fmt::format("JSON is nested deeper than {} levels", kMaxDepth));
  switch (element.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      break;
    case simdjson::dom::element_type::BOOL:
      node.kind = Node::Kind::kBool;
      node.boolean = bool(element);
      break;
    case simdjson::dom::element_type::INT64:
      node.kind = Node::Kind::kInteger;
      node.integer = std::int64_t(element);
      break;
    case simdjson::dom::element_type::UINT64:  // only values of 2^63 and more come as this type
      node.kind = Node::Kind::kReal;
      node.real = static_cast<double>(std::uint64_t(element));
      break;
    case simdjson::dom::element_type::DOUBLE:
      node.kind = Node::Kind::kReal;
      node.real = double(element);
      break;
    case simdjson::dom::element_type::STRING:
      node.kind = Node::Kind::kString;
      node.text = std::string(std::string_view(element));
      break;
    case simdjson::dom::element_type::ARRAY:
      node.kind = Node::Kind::kArray;
      for (const simdjson::dom::element item : simdjson::dom::array(element)) {
        PLIMSOLL_TRY(child, convert(item, depth + 1));
        node.items.push_back(std::move(child));
      }
      break;
    case simdjson::dom::element_type::OBJECT:
      node.kind = Node::Kind::kObject;
      for (const auto& [key, value] : simdjson::dom::object(element)) {
        PLIMSOLL_TRY(child, convert(value, depth + 1));
        node.members.emplace_back(std::string(key), std::move(child));
      }
      break;
  }
  return node;
}

}  // namespace

Result<Node> parse_json(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::padded_string padded(text);
  if (const auto failure = parser.parse(padded).get(root); failure != simdjson::SUCCESS)
    return bad_input(fmt::format("not valid JSON: {}", simdjson::error_message(failure)));
  return convert(root, 0);
}

}  // namespace plimsoll::document
