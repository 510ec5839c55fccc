// SPDX-License-Identifier: Apache-2.0
// JSON, read straight into nodes: nothing is held beside the text and the tree, and the tree is bounded before it
// grows. The relaxed form takes what people write into configurations: comments, trailing commas and Python's
// Infinity and NaN.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <simdjson.h>

#include "document/budget.h"
#include "document/node.h"
#include "document/relaxed_json.h"

namespace plimsoll::document {

namespace {

constexpr std::string_view kUnmatched = "brackets, commas or quotes do not match, or the text ends early";

// The first key that occurs twice, or "". Sorting keeps a table of many keys from taking minutes.
std::string repeated_key(const Node& table) {
  std::vector<std::string_view> keys;
  keys.reserve(table.members.size());
  for (const auto& member : table.members) keys.push_back(member.first);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  return twice == keys.end() ? std::string{} : std::string{*twice};
}

// Vectors that grow by doubling would hold three times what they need at the worst moment.
template <class Items>
void make_room(Items& items) {
  if (items.size() == items.capacity()) items.reserve(items.size() + items.size() / 4 + 4);
}

class Reader {
 public:
  Reader(std::string_view text, bool is_relaxed) : text_(text), budget_(text.size()), is_relaxed_(is_relaxed) {}

  Result<Node> read() {
    skip_blanks();
    PLIMSOLL_TRY(root, value(0));
    skip_blanks();
    if (at_ != text_.size()) return failure(kUnmatched);
    return root;
  }

 private:
  Result<Node> value(int depth) {
    if (depth > kMaxDepth) return failure(fmt::format("nested deeper than {} levels", kMaxDepth));
    if (at_ >= text_.size()) return failure(kUnmatched);
    const int line = line_;
    const char c = text_[at_];
    Result<Node> node = c == '{'                             ? table(depth)
                        : c == '['                           ? list(depth)
                        : c == '"'                           ? string()
                        : c == '-' || (c >= '0' && c <= '9') ? number()
                                                             : word();
    if (node) node->line = line;
    return node;
  }
  Result<Node> list(int depth) {
    Node node;
    node.kind = Node::Kind::kArray;
    ++at_;
    skip_blanks();
    if (accept(']')) return node;
    while (true) {
      if (!budget_.take(sizeof(Node))) return bad_input(std::string(kTooManyNodes));
      PLIMSOLL_TRY(item, value(depth + 1));
      make_room(node.items);
      node.items.push_back(std::move(item));
      skip_blanks();
      if (accept(']')) return node;
      if (!accept(',')) return failure(kUnmatched);
      skip_blanks();
      if (is_relaxed_ && accept(']')) return node;
    }
  }
  Result<Node> table(int depth) {
    Node node;
    node.kind = Node::Kind::kObject;
    ++at_;
    skip_blanks();
    if (accept('}')) return node;
    while (true) {
      if (!budget_.take(sizeof(node.members.front()))) return bad_input(std::string(kTooManyNodes));
      if (at_ >= text_.size() || text_[at_] != '"') return failure(kUnmatched);
      PLIMSOLL_TRY(key, string());
      skip_blanks();
      if (!accept(':')) return failure(kUnmatched);
      skip_blanks();
      PLIMSOLL_TRY(item, value(depth + 1));
      make_room(node.members);
      node.members.emplace_back(std::move(key.text), std::move(item));
      skip_blanks();
      if (accept('}')) break;
      if (!accept(',')) return failure(kUnmatched);
      skip_blanks();
      if (is_relaxed_ && accept('}')) break;
    }
    if (const std::string key = repeated_key(node); !key.empty())
      return bad_input(fmt::format("the key '{}' appears twice in one table", key.substr(0, 80)));
    return node;
  }
  Result<Node> string() {
    Node node;
    node.kind = Node::Kind::kString;
    for (++at_; at_ < text_.size();) {
      const std::size_t start = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      node.text += text_.substr(start, at_ - start);
      if (at_ >= text_.size()) break;
      if (accept('"')) return node;
      if (text_[at_] != '\\') return failure("a string has a bad escape or a raw control character");
      if (!escape(node.text)) return failure("a string has a bad escape or a raw control character");
    }
    return failure("a string is not closed");
  }
  bool escape(std::string& out) {
    if (at_ + 1 >= text_.size()) return false;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char name = text_[at_ + 1];
    if (const std::size_t known = kNames.find(name); known != std::string_view::npos) {
      out += kValues[known];
      at_ += 2;
      return true;
    }
    std::uint32_t code = 0;
    if (name != 'u' || !hexadecimal(at_ + 2, code)) return false;
    at_ += 6;
    if (code >= 0xDC00 && code < 0xE000) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      std::uint32_t low = 0;
      if (text_.substr(at_, 2) != "\\u" || !hexadecimal(at_ + 2, low) || low < 0xDC00 || low >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
      at_ += 6;
    }
    append_utf8(code, out);
    return true;
  }
  bool hexadecimal(std::size_t at, std::uint32_t& code) const {
    if (at + 4 > text_.size()) return false;
    const auto [end, failed] = std::from_chars(text_.data() + at, text_.data() + at + 4, code, 16);
    return failed == std::errc{} && end == text_.data() + at + 4;
  }
  static void append_utf8(std::uint32_t code, std::string& out) {
    const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0U | (code >> 6U));
      put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      put(0xE0U | (code >> 12U));
      put(0x80U | ((code >> 6U) & 0x3FU));
      put(0x80U | (code & 0x3FU));
    } else {
      put(0xF0U | (code >> 18U));
      put(0x80U | ((code >> 12U) & 0x3FU));
      put(0x80U | ((code >> 6U) & 0x3FU));
      put(0x80U | (code & 0x3FU));
    }
  }
  // -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
  Result<Node> number() {
    const std::size_t start = at_;
    const auto digits = [this] {
      const std::size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return at_ - first;
    };
    const bool is_negative = accept('-');
    if (is_relaxed_ && is_negative && text_.substr(at_, 8) == "Infinity") {
      at_ += 8;
      return string_node("-Infinity");
    }
    const bool leads_with_zero = at_ < text_.size() && text_[at_] == '0';
    const std::size_t count = digits();
    bool good = count > 0 && !(leads_with_zero && count > 1);
    bool is_integer = true;
    if (accept('.')) {
      is_integer = false;
      good = digits() > 0 && good;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      is_integer = false;
      ++at_;
      if (!accept('-')) accept('+');
      good = digits() > 0 && good;
    }
    const char* const first = text_.data() + start;
    const char* const last = text_.data() + at_;
    Node node;
    if (good && is_integer) {
      node.kind = Node::Kind::kInteger;
      if (std::from_chars(first, last, node.integer).ec == std::errc{}) return node;
      std::uint64_t large = 0;  // 2^63 and more
      if (!is_negative && std::from_chars(first, last, large).ec == std::errc{}) {
        node.kind = Node::Kind::kReal;
        node.real = static_cast<double>(large);
        return node;
      }
    } else if (good) {
      node.kind = Node::Kind::kReal;
      if (std::from_chars(first, last, node.real).ec == std::errc{} && std::isfinite(node.real)) return node;
      const bool is_tiny = text_.substr(start, at_ - start).find("e-") != std::string_view::npos;
      if (is_tiny) {
        node.real = 0;
        return node;
      }
    }
    return failure("a number is malformed or too large");
  }
  Result<Node> word() {
    Node node;
    for (const std::string_view name : {"true", "false", "null"}) {
      if (text_.substr(at_, name.size()) != name) continue;
      at_ += name.size();
      if (name != "null") node.kind = Node::Kind::kBool;
      node.boolean = name == "true";
      return node;
    }
    if (is_relaxed_)
      for (const std::string_view name : {"Infinity", "NaN"}) {
        if (text_.substr(at_, name.size()) != name) continue;
        at_ += name.size();
        return string_node(name);
      }
    return failure(kUnmatched);
  }
  static Node string_node(std::string_view text) {
    Node node;
    node.kind = Node::Kind::kString;
    node.text = text;
    return node;
  }
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if (is_relaxed_ && (c == '#' || text_.substr(at_, 2) == "//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (is_relaxed_ && text_.substr(at_, 2) == "/*") {
        const std::size_t end = std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 2;
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
        at_ = end;
      } else {
        return;
      }
    }
  }
  [[nodiscard]] tl::unexpected<Error> failure(std::string_view what) const {
    return bad_input(fmt::format("not valid JSON: line {}: {}", line_, what));
  }

  std::string_view text_;
  NodeBudget budget_;
  bool is_relaxed_;
  std::size_t at_ = 0;
  int line_ = 1;
};

Result<Node> parse(std::string_view text, bool is_relaxed) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark, as some editors write
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return bad_input("not valid JSON: the file is empty");
  if (!simdjson::validate_utf8(text)) return bad_input("not valid JSON: the text is not UTF-8");
  return Reader(text, is_relaxed).read();
}

}  // namespace

Result<Node> parse_json(std::string_view text) { return parse(text, false); }

Result<Node> parse_relaxed_json(std::string_view text) { return parse(text, true); }

}  // namespace plimsoll::document
