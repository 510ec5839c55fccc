// SPDX-License-Identifier: Apache-2.0
// JSON through simdjson's DOM parser. Lone NaN and Infinity, as Python's json writes them, are refused
// by simdjson with a clear message; no configuration needs them.
#include <algorithm>

#include <fmt/format.h>
#include <simdjson.h>

#include "document/node.h"

namespace plimsoll::document {

namespace {

// The first key that occurs twice, or "". Sorting keeps a table of a million keys from taking minutes.
std::string repeated_key(const Node& table) {
  std::vector<std::string_view> keys;
  keys.reserve(table.members.size());
  for (const auto& member : table.members) keys.push_back(member.first);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() ? std::string{} : std::string{*twice};
}

std::string explain(simdjson::error_code failure) {
  switch (failure) {
    case simdjson::EMPTY:
      return "the file is empty";
    case simdjson::UNCLOSED_STRING:
      return "a string is not closed";
    case simdjson::STRING_ERROR:
      return "a string has a bad escape or a raw control character";
    case simdjson::UTF8_ERROR:
      return "the text is not UTF-8";
    case simdjson::NUMBER_ERROR:
      return "a number is malformed or too large";
    case simdjson::DEPTH_ERROR:
      return fmt::format("nested deeper than {} levels", kMaxDepth);
    case simdjson::TAPE_ERROR:
      return "brackets, commas or quotes do not match, or the text ends early";
    case simdjson::CAPACITY:
      return "the file is too large";
    default:
      return simdjson::error_message(failure);
  }
}

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
      if (const std::string key = repeated_key(node); !key.empty())
        return bad_input(fmt::format("the key '{}' appears twice in one table", key.substr(0, 80)));
      break;
  }
  return node;
}

}  // namespace

constexpr const char* kNoMemory = "there is not enough memory for this file";

Result<Node> parse_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark, as some editors write
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::padded_string padded(text);
  if (const auto failure = parser.parse(padded).get(root); failure != simdjson::SUCCESS)
    return failure == simdjson::MEMALLOC ? tl::make_unexpected(Error{Code::kMissing, kNoMemory, {}, {}})
                                         : bad_input(fmt::format("not valid JSON: {}", explain(failure)));
  return convert(root, 0);
}

}  // namespace plimsoll::document
