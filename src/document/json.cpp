// SPDX-License-Identifier: Apache-2.0
// JSON, read straight into nodes: nothing is held beside the text and the tree, and the tree is bounded before it
// grows. The relaxed form takes what people write into configurations: comments, trailing commas and Python's
// Infinity and NaN.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <simdjson.h>

#include "document/budget.h"
#include "document/json_front.h"
#include "document/node.h"
#include "document/relaxed_json.h"

namespace plimsoll::document {

namespace {

constexpr std::string_view kUnmatched = "brackets, commas or quotes do not match, or the text ends early";

// The first key that occurs twice, or "". Sorting keeps a table of many keys from taking minutes.
std::string repeated_key(const Node& table) {
  constexpr std::size_t kFew = 12;
  if (table.members.size() <= kFew) {
    for (std::size_t i = 1; i < table.members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (table.members[i].first == table.members[j].first) return table.members[i].first;
    return {};
  }
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

  // Of a text that is one value; with `rest`, of the value that it begins with.
  Result<Node> read(bool rest = false) {
    skip_blanks();
    Node root;
    if (value(root, 0)) {
      skip_blanks();
      if (rest || at_ == text_.size()) return root;
      failure(kUnmatched);
    }
    return tl::make_unexpected(std::move(*error_));
  }

 private:
  // Each fills a node where it stands in the tree; false, and the error is noted, where it cannot.
  bool value(Node& node, int depth) {
    if (depth > kMaxDepth) return failure(fmt::format("nested deeper than {} levels", kMaxDepth));
    if (at_ >= text_.size()) return failure(kUnmatched);
    node.line = line_;
    switch (text_[at_]) {
      case '{':
        return table(node, depth);
      case '[':
        return list(node, depth);
      case '"':
        node.kind = Node::Kind::kString;
        return string(node.text);
      default:
        return text_[at_] == '-' || is_digit(text_[at_]) ? number(node) : word(node);
    }
  }
  bool list(Node& node, int depth) {
    node.kind = Node::Kind::kArray;
    ++at_;
    skip_blanks();
    if (accept(']')) return true;
    while (true) {
      if (!budget_.take(sizeof(Node))) return too_many();
      make_room(node.items);
      if (!value(node.items.emplace_back(), depth + 1)) return false;
      skip_blanks();
      if (accept(']')) return true;
      if (!accept(',')) return failure(kUnmatched);
      skip_blanks();
      if (is_relaxed_ && accept(']')) return true;
    }
  }
  bool table(Node& node, int depth) {
    node.kind = Node::Kind::kObject;
    ++at_;
    skip_blanks();
    if (accept('}')) return true;
    while (true) {
      if (!budget_.take(sizeof(node.members.front()))) return too_many();
      if (at_ >= text_.size() || text_[at_] != '"') return failure(kUnmatched);
      make_room(node.members);
      auto& [key, item] = node.members.emplace_back();
      if (!string(key)) return false;
      skip_blanks();
      if (!accept(':')) return failure(kUnmatched);
      skip_blanks();
      if (!value(item, depth + 1)) return false;
      skip_blanks();
      if (accept('}')) break;
      if (!accept(',')) return failure(kUnmatched);
      skip_blanks();
      if (is_relaxed_ && accept('}')) break;
    }
    const std::string key = repeated_key(node);
    if (key.empty()) return true;
    error_ = bad_input(fmt::format("the key '{}' appears twice in one table", key.substr(0, 80))).value();
    return false;
  }
  bool string(std::string& out) {
    for (++at_; at_ < text_.size();) {
      const std::size_t start = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      out.append(text_, start, at_ - start);
      if (at_ >= text_.size()) break;
      if (accept('"')) return true;
      if (text_[at_] != '\\' || !escape(out)) return failure("a string has a bad escape or a raw control character");
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
  bool number(Node& node) {
    const std::size_t start = at_;
    const auto digits = [this] {
      const std::size_t first = at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      return at_ - first;
    };
    const bool is_negative = accept('-');
    if (is_relaxed_ && is_negative && text_.substr(at_, 8) == "Infinity") {
      at_ += 8;
      return string_node(node, "-Infinity");
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
    if (good && is_integer) {
      node.kind = Node::Kind::kInteger;
      if (std::from_chars(first, last, node.integer).ec == std::errc{}) return true;
      std::uint64_t large = 0;  // 2^63 and more
      if (!is_negative && std::from_chars(first, last, large).ec == std::errc{}) {
        node.kind = Node::Kind::kReal;
        node.real = static_cast<double>(large);
        return true;
      }
    } else if (good) {
      node.kind = Node::Kind::kReal;
      if (std::from_chars(first, last, node.real).ec == std::errc{} && std::isfinite(node.real)) return true;
      const bool is_tiny = text_.substr(start, at_ - start).find("e-") != std::string_view::npos;
      if (is_tiny) {
        node.real = 0;
        return true;
      }
    }
    return failure("a number is malformed or too large");
  }
  bool word(Node& node) {
    for (const std::string_view name : {"true", "false", "null"}) {
      if (text_.substr(at_, name.size()) != name) continue;
      at_ += name.size();
      if (name != "null") node.kind = Node::Kind::kBool;
      node.boolean = name == "true";
      return true;
    }
    if (is_relaxed_)
      for (const std::string_view name : {"Infinity", "NaN"}) {
        if (text_.substr(at_, name.size()) != name) continue;
        at_ += name.size();
        return string_node(node, name);
      }
    return failure(kUnmatched);
  }
  static bool string_node(Node& node, std::string_view text) {
    node.kind = Node::Kind::kString;
    node.text = text;
    return true;
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
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
  bool failure(std::string_view what) {
    error_ = bad_input(fmt::format("not valid JSON: line {}: {}", line_, what)).value();
    return false;
  }
  bool too_many() {
    error_ = bad_input(std::string(kTooManyNodes)).value();
    return false;
  }

  std::string_view text_;
  NodeBudget budget_;
  bool is_relaxed_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::optional<Error> error_;
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

Result<Node> parse_json_front(std::string_view text) { return Reader(text, false).read(true); }

}  // namespace plimsoll::document
