// SPDX-License-Identifier: Apache-2.0
#include "document/plain_toml.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace plimsoll::document {

namespace {

bool is_key_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// To the end without a branch, so that the compiler takes many characters at once.
bool is_plain(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= (c >= ' ' && c <= '~') || c == '\n' || c == '\t';
  return plain;
}

// As parse_toml() has them: by line, then by name.
void sort_members(Node& table) {
  const auto less = [](const auto& x, const auto& y) {
    return std::tie(x.second.line, x.first) < std::tie(y.second.line, y.first);
  };
  if (!std::is_sorted(table.members.begin(), table.members.end(), less))
    std::sort(table.members.begin(), table.members.end(), less);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Node> read() {
    Node root;
    root.kind = Node::Kind::kObject;
    Node* table = &root;
    // Keys before the first table are left to the whole parser: an array among them could meet [[its name]].
    if (!is_plain(text_)) return std::nullopt;
    for (skip_blank(true); at_ < text_.size(); skip_blank(true)) {
      const bool ok = peek() == '[' ? open_table(root, table) : table != &root && read_member(*table, 0);
      if (!ok || !ends_line()) return std::nullopt;
    }
    return root;
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  // Spaces and comments; line ends too where they mean nothing.
  void skip_blank(bool across_lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n' && across_lines) {
        ++line_;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c != ' ' && c != '\t') {
        return;
      }
    }
  }

  bool ends_line() {
    skip_blank(false);
    return at_ == text_.size() || peek() == '\n';
  }

  std::string_view key() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_key_character(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // [name] once, and [[name]] as often as wanted.
  bool open_table(Node& root, Node*& table) {
    ++at_;
    const bool is_item = take('[');
    const std::string_view name = key();
    if (name.empty() || !take(']') || (is_item && !take(']'))) return false;
    auto found = std::find_if(root.members.begin(), root.members.end(), [&](const auto& m) { return m.first == name; });
    if (found != root.members.end() && (!is_item || !found->second.is_array())) return false;
    if (found == root.members.end()) {
      root.members.emplace_back(std::string(name), Node{});
      found = std::prev(root.members.end());
      found->second.kind = is_item ? Node::Kind::kArray : Node::Kind::kObject;
      found->second.line = line_;
    }
    table = is_item ? &found->second.items.emplace_back() : &found->second;
    table->kind = Node::Kind::kObject;
    table->line = line_;
    return true;
  }

  bool read_member(Node& table, int depth) {
    const std::string_view name = peek() == '"' ? quoted().value_or("") : key();
    if (name.empty() || table.has(name)) return false;
    skip_blank(false);
    if (!take('=')) return false;
    skip_blank(false);
    Node value;
    if (!read_value(value, depth)) return false;
    table.members.emplace_back(std::string(name), std::move(value));
    return true;
  }

  bool read_value(Node& value, int depth) {
    value.line = line_;
    if (depth > kMaxDepth) return false;
    switch (peek()) {
      case '"':
      case '\'':
        return read_text(value);
      case '[':
        return read_list(value, depth);
      case '{':
        return read_inline_table(value, depth);
      default:
        return read_word(value);
    }
  }

  std::optional<std::string_view> quoted() {
    const char quote = text_[at_++];
    const std::size_t begin = at_;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    if (peek() == quote) return std::nullopt;  // three of them open a text of several lines
    const std::string_view inside = text_.substr(begin, end - begin);
    const auto has = [inside](char c) { return inside.find(c) != std::string_view::npos; };
    if (has('\n') || (quote == '"' && has('\\'))) return std::nullopt;
    return inside;
  }

  bool read_text(Node& value) {
    const auto text = quoted();
    if (!text) return false;
    value.kind = Node::Kind::kString;
    value.text = *text;
    return true;
  }

  bool read_list(Node& value, int depth) {
    ++at_;
    value.kind = Node::Kind::kArray;
    for (skip_blank(true); !take(']'); skip_blank(true)) {
      if (!read_value(value.items.emplace_back(), depth + 1)) return false;
      skip_blank(true);
      if (!take(',') && peek() != ']') return false;
    }
    return true;
  }

  bool read_inline_table(Node& value, int depth) {
    ++at_;
    value.kind = Node::Kind::kObject;
    skip_blank(false);
    if (take('}')) return true;
    do {
      skip_blank(false);
      if (!read_member(value, depth + 1)) return false;
      skip_blank(false);
    } while (take(','));
    sort_members(value);
    return take('}');
  }

  // A boolean, or a number as people write it; all else is for the whole parser.
  bool read_word(Node& value) {
    const std::size_t begin = at_;
    std::string_view word = key();
    if (word == "true" || word == "false") {
      value.kind = Node::Kind::kBool;
      value.boolean = word == "true";
      return true;
    }
    if (word.empty() || (word.size() > 1 && (word.front() == '0' || word.starts_with("-0")))) return false;
    if (!take('.')) return whole_number(word, value);
    const std::string_view decimals = key();
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (decimals.empty() || !std::all_of(decimals.begin(), decimals.end(), is_digit)) return false;
    word = text_.substr(begin, at_ - begin);
    value.kind = Node::Kind::kReal;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value.real);
    return error == std::errc{} && end == word.data() + word.size();
  }

  static bool whole_number(std::string_view word, Node& value) {
    value.kind = Node::Kind::kInteger;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value.integer);
    return error == std::errc{} && end == word.data() + word.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::optional<Node> parse_plain_toml(std::string_view text) { return Reader(text).read(); }

}  // namespace plimsoll::document
