// SPDX-License-Identifier: Apache-2.0
#include "job/value.h"

#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::job {

using document::Node;

namespace {

// Strings of command lines and quoted YAML are read again as what they spell.
Node unquoted(const Node& value) { return value.is_string() ? document::parse_scalar(value.text) : value; }

std::string bound(double value) {
  if (std::fabs(value) < 1e15 && value == std::floor(value)) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{:g}", value);
}

std::string wanted(std::string_view what, const Range& range) {
  return fmt::format("wanted {} from {} to {}", what, bound(range.min), bound(range.max));
}

tl::unexpected<Error> mismatch(const Node& value, const std::string& want) {
  return bad_input(fmt::format("found {} ({}), {}", shown(value), document::kind_name(value.kind), want));
}

}  // namespace

std::string shown(const Node& value) {
  std::string text = document::to_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f) c = '?';
  return value.is_string() ? "'" + text + "'" : text;
}

Result<std::int64_t> to_integer(const Node& value, const Range& range) {
  const Node plain = unquoted(value);
  const std::string want = wanted("an integer", range);
  if (!plain.is_number()) return mismatch(value, want);
  const double real = plain.as_real();
  if (!std::isfinite(real) || real != std::floor(real) || real < range.min || real > range.max)
    return mismatch(value, want);
  return plain.is_integer() ? plain.integer : static_cast<std::int64_t>(real);
}

Result<double> to_real(const Node& value, const Range& range) {
  const Node plain = unquoted(value);
  if (!plain.is_number() || !std::isfinite(plain.as_real()) || plain.as_real() < range.min ||
      plain.as_real() > range.max)
    return mismatch(value, wanted("a number", range));
  return plain.as_real();
}

Result<bool> to_bool(const Node& value) {
  if (value.is_bool()) return value.boolean;
  if (value.is_integer() && (value.integer == 0 || value.integer == 1)) return value.integer == 1;
  if (value.is_string()) {
    if (value.text.empty()) return true;
    for (const std::string_view yes : {"true", "yes", "on", "1"})
      if (equals_ignoring_case(value.text, yes)) return true;
    for (const std::string_view no : {"false", "no", "off", "0"})
      if (equals_ignoring_case(value.text, no)) return false;
  }
  return mismatch(value, "wanted true or false");
}

Result<std::string> to_word(const Node& value) {
  if (value.is_string()) return value.text;
  if (value.is_number() || value.is_bool()) return document::to_text(value);
  if (value.is_null()) return std::string("none");
  return mismatch(value, "wanted a word");
}

Result<std::int64_t> to_bytes(const Node& value) {
  if (value.is_string()) return parse_bytes(value.text);
  return to_integer(value, Range{0, 9e18});
}

Result<std::vector<std::string>> to_words(const Node& value) {
  std::vector<std::string> words;
  if (value.is_null()) return words;
  if (value.is_array()) {
    for (const Node& item : value.items) {
      PLIMSOLL_TRY(word, to_word(item));
      words.push_back(std::move(word));
    }
    return words;
  }
  PLIMSOLL_TRY(text, to_word(value));
  std::string_view rest = trim(text);
  if (rest.size() >= 2 && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
  std::string word;
  for (const char c : std::string(rest) + " ") {
    if (c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '"' || c == '\'') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  return words;
}

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = std::move(text);
  return node;
}

Node bool_node(bool value) {
  Node node;
  node.kind = Node::Kind::kBool;
  node.boolean = value;
  return node;
}

Node integer_node(std::int64_t value) {
  Node node;
  node.kind = Node::Kind::kInteger;
  node.integer = value;
  return node;
}

Node real_node(double value) {
  Node node;
  node.kind = Node::Kind::kReal;
  node.real = value;
  return node;
}

bool same_value(const Node& a, const Node& b) {
  const Node x = unquoted(a);
  const Node y = unquoted(b);
  if (x.is_number() && y.is_number()) return x.as_real() == y.as_real();
  if (x.kind != y.kind) return false;
  if (x.is_array()) {
    if (x.items.size() != y.items.size()) return false;
    for (std::size_t i = 0; i < x.items.size(); ++i)
      if (!same_value(x.items[i], y.items[i])) return false;
    return true;
  }
  if (x.is_object()) {
    if (x.members.size() != y.members.size()) return false;
    for (const auto& [name, item] : x.members) {
      const Node* other = y.find(name);
      if (other == nullptr || !same_value(item, *other)) return false;
    }
    return true;
  }
  return equals_ignoring_case(document::to_text(x), document::to_text(y));
}

}  // namespace plimsoll::job
