// SPDX-License-Identifier: Apache-2.0
#include "document/plain_yaml.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "document/budget.h"

namespace plimsoll::document {

namespace {

constexpr std::size_t kLongestKey = 256;  // YAML has a limit of 1024 for keys without a mark

bool is_plain_character(char c) { return c >= ' ' && c <= '~'; }

// What a plain text may not start with.
bool is_indicator(char c) { return std::string_view(",[]{}#&*!|>'\"%@`?:").find(c) != std::string_view::npos; }

bool is_null_word(std::string_view word) { return word == "~" || word == "null" || word == "Null" || word == "NULL"; }

bool is_entry(std::string_view content) { return content.starts_with("- ") || content == "-"; }

std::string_view without_trailing_blanks(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Node text_of(std::string_view value) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = value;
  return node;
}

// The keys of one table, seen so far. Short tables are searched, long ones have a set.
class Keys {
 public:
  [[nodiscard]] bool add(std::string_view key) {
    constexpr std::size_t kShort = 16;
    if (set_.empty()) {
      if (std::find(few_.begin(), few_.end(), key) != few_.end()) return false;
      few_.push_back(key);
      if (few_.size() > kShort) set_.insert(few_.begin(), few_.end());
      return true;
    }
    return set_.insert(key).second;
  }

 private:
  std::vector<std::string_view> few_;
  std::unordered_set<std::string_view> set_;
};

// What a tree may cost. Items that are read and not kept are free: they go again at once.
struct Purse {
  NodeBudget budget;
  int dropped = 0;  // items around this place that are not kept
  bool is_empty = false;

  [[nodiscard]] bool pay(std::size_t bytes) {
    if (dropped > 0 || budget.take(bytes)) return true;
    is_empty = true;
    return false;
  }
};

constexpr std::size_t kMemberBytes = sizeof(std::pair<std::string, Node>);

// A list or table in brackets on one line.
class Flow {
 public:
  Flow(std::string_view text, Purse& purse) : text_(text), purse_(purse) {}

  // The value, with the end of it in `end()`.
  bool read(Node& into, int depth) {
    if (depth > kMaxDepth) return false;
    const char open = peek();
    if (open == '[' || open == '{') {
      ++at_;
      into.kind = open == '[' ? Node::Kind::kArray : Node::Kind::kObject;
      return read_children(into, open == '[' ? ']' : '}', depth);
    }
    return read_scalar(into);
  }
  [[nodiscard]] std::size_t end() const { return at_; }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (peek() == ' ') ++at_;
  }
  bool read_children(Node& into, char close, int depth) {
    Keys keys;
    for (skip(); peek() != close; skip()) {
      std::string_view key;
      if (close == '}' && !read_key(key, keys)) return false;
      const bool is_kept = close == '}' || into.items.size() < kKeptItems;
      Node child;
      purse_.dropped += is_kept ? 0 : 1;
      if (!read(child, depth + 1)) return false;
      purse_.dropped -= is_kept ? 0 : 1;
      if (is_kept && !purse_.pay(kMemberBytes + child.text.size())) return false;
      if (close == '}') {
        into.members.emplace_back(std::string(key), std::move(child));
      } else if (is_kept) {
        into.items.push_back(std::move(child));
      }
      skip();
      if (peek() == close) break;
      if (peek() != ',') return false;
      ++at_;
      skip();
      if (peek() == close || peek() == '\0') return false;  // a trailing comma
    }
    ++at_;
    return true;
  }
  bool read_key(std::string_view& key, Keys& keys) {
    const std::size_t start = at_;
    while (is_word(peek())) ++at_;
    key = text_.substr(start, at_ - start);
    if (key.empty() || key.size() > kLongestKey || is_null_word(key) || key.starts_with('-')) return false;
    if (!text_.substr(at_).starts_with(": ") || !keys.add(key)) return false;
    ++at_;
    skip();
    return true;
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '/' || c == '+';
  }
  bool read_scalar(Node& into) {
    if (peek() == '"' || peek() == '\'') {
      const char quote = peek();
      const std::size_t close = text_.find(quote, at_ + 1);
      if (close == std::string_view::npos) return false;
      const std::string_view inside = text_.substr(at_ + 1, close - at_ - 1);
      if (inside.find('\\') != std::string_view::npos || text_.substr(close + 1).starts_with(quote)) return false;
      into = text_of(inside);
      at_ = close + 1;
      return true;
    }
    const std::size_t start = at_;
    while (is_word(peek())) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (word.empty() || word == "-" || word.starts_with("--")) return false;
    into = yaml_scalar(word);
    return true;
  }

  std::string_view text_;
  Purse& purse_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), purse_{NodeBudget(text.size())} {}

  PlainYaml read() {
    PlainYaml result;
    Node root;
    if (next() && content_ == "---" && indent_ == 0) next();
    const bool has_content = !ended_ && !stopped_;
    if (has_content && read_block(root, indent_, 1) && ended_ && !stopped_) {
      result.root = std::move(root);
    } else {
      result.stopped_at = std::max(line_, 1);
      result.too_large = purse_.is_empty;
    }
    return result;
  }

 private:
  // The next line that holds something, as indent_ and content_, without its comment; false at the end, or where a line
  // has more than plain characters.
  bool next() {
    while (!stopped_ && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++line_;
      indent_ = std::min(line.find_first_not_of(' '), line.size());
      line.remove_prefix(indent_);
      if (line.empty()) continue;
      if (line.front() == '#') {
        if (!is_comment(line)) return stop();
        continue;
      }
      content_ = without_comment(line);
      if (!std::all_of(content_.begin(), content_.end(), is_plain_character)) return stop();
      if (!is_comment(line.substr(content_.size()))) return stop();
      content_ = without_trailing_blanks(content_);
      const bool is_marker = indent_ == 0 && (content_.starts_with("---") || content_.starts_with("..."));
      if (is_marker && (line_of_first_ != 0 || content_ != "---")) return stop();
      if (line_of_first_ == 0) line_of_first_ = line_;
      return true;
    }
    ended_ = true;
    return false;
  }
  bool stop() {
    stopped_ = true;
    return false;
  }
  // Comments may have any character but those that YAML forbids or that end a line.
  static bool is_comment(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return c == '\t' || (byte >= 0x20 && byte != 0x7f);
    });
  }
  // Up to " #" outside of quotes that open a value. A quote inside of a plain text means nothing.
  static std::string_view without_comment(std::string_view line) {
    char quote = '\0';
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if ((c == '"' || c == '\'') &&
                 (i == 0 || line[i - 1] == ' ' || line[i - 1] == '[' || line[i - 1] == ',')) {
        quote = c;
      } else if (c == '#' && i > 0 && line[i - 1] == ' ') {
        return line.substr(0, i);
      }
    }
    return line;
  }

  bool read_block(Node& into, std::size_t indent, int depth) {
    if (depth > kMaxDepth) return stop();
    into.line = line_;
    return is_entry(content_) ? read_list(into, indent, depth) : read_table(into, indent, depth);
  }

  bool read_list(Node& into, std::size_t indent, int depth) {
    into.kind = Node::Kind::kArray;
    while (!ended_ && !stopped_ && indent_ == indent && is_entry(content_)) {
      const bool is_kept = into.items.size() < kKeptItems;
      Node item;
      purse_.dropped += is_kept ? 0 : 1;
      if (!read_entry(item, indent, depth)) return false;
      purse_.dropped -= is_kept ? 0 : 1;
      if (!is_kept) continue;
      if (!pay(item)) return false;
      into.items.push_back(std::move(item));
    }
    return !stopped_ && (ended_ || indent_ <= indent || stop());
  }

  bool read_entry(Node& item, std::size_t indent, int depth) {
    std::size_t start = content_.find_first_not_of(' ', 1);
    if (start == std::string_view::npos) return read_below(item, indent, false, depth);
    content_.remove_prefix(start);
    indent_ = indent + start;
    if (is_entry(content_) || has_key(content_)) return read_block(item, indent_, depth + 1);
    return read_value(item, indent, depth);
  }

  bool read_table(Node& into, std::size_t indent, int depth) {
    into.kind = Node::Kind::kObject;
    Keys keys;
    while (!ended_ && !stopped_ && indent_ == indent) {
      const std::size_t colon = colon_of(content_);
      if (colon == std::string_view::npos || is_entry(content_)) return stop();
      const std::string_view key = without_trailing_blanks(content_.substr(0, colon));
      if (key.empty() || key.size() > kLongestKey || is_indicator(key.front()) || key == "<<" || is_null_word(key))
        return stop();
      if (key.find(" #") != std::string_view::npos || !keys.add(key)) return stop();
      content_.remove_prefix(
          std::min(std::min(content_.find_first_not_of(' ', colon + 1), content_.size()), content_.size()));
      Node value;
      if (!(content_.empty() ? read_below(value, indent, true, depth) : read_value(value, indent, depth))) return false;
      if (!pay(value)) return false;
      into.members.emplace_back(std::string(key), std::move(value));
    }
    return !stopped_ && (ended_ || indent_ < indent || stop());
  }

  // What stands on the lines below a key or a dash, deeper than it, or a list beside its key; nothing is null.
  bool read_below(Node& into, std::size_t indent, bool is_key, int depth) {
    into.line = line_;
    if (!next()) return !stopped_;
    const bool is_below = indent_ > indent || (is_key && indent_ == indent && is_entry(content_));
    if (!is_below) return true;
    // A text that starts on the line below is more than plain.
    if (!is_entry(content_) && !has_key(content_)) return stop();
    return read_block(into, indent_, depth + 1);
  }

  // A value on the line of its key or dash; the next line must not go on with it.
  bool read_value(Node& into, std::size_t indent, int depth) {
    const char first = content_.front();
    if (first == '[' || first == '{') {
      Flow flow(content_, purse_);
      if (!flow.read(into, depth + 1) || flow.end() != content_.size()) return stop();
    } else if (first == '"' || first == '\'') {
      const std::size_t close = content_.find(first, 1);
      if (close != content_.size() - 1 || content_.find('\\') != std::string_view::npos) return stop();
      into = text_of(content_.substr(1, close - 1));
    } else {
      if (is_indicator(first) || is_entry(content_) || has_key(content_)) return stop();
      if (content_.find(" #") != std::string_view::npos) return stop();  // a quote before it hid a comment
      into = yaml_scalar(content_);
    }
    into.line = line_;
    if (!next()) return !stopped_;
    return indent_ <= indent || stop();
  }

  // The colon that ends a key: before a blank or the end of the line.
  static std::size_t colon_of(std::string_view content) {
    for (std::size_t i = content.find(':'); i != std::string_view::npos; i = content.find(':', i + 1))
      if (i + 1 == content.size() || content[i + 1] == ' ') return i;
    return std::string_view::npos;
  }
  // In brackets and quotes a colon belongs to the value.
  static bool has_key(std::string_view content) {
    const char first = content.front();
    if (first == '[' || first == '{' || first == '"' || first == '\'') return false;
    return colon_of(content) != std::string_view::npos;
  }

  // A tree that needs far more than its text is no configuration.
  bool pay(const Node& node) { return purse_.pay(kMemberBytes + node.text.size()) || stop(); }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 0;
  int line_of_first_ = 0;
  std::size_t indent_ = 0;
  std::string_view content_;
  bool ended_ = false;
  bool stopped_ = false;
  Purse purse_;
};

// "500_000" is an integer of YAML 1.1, as PyYAML reads it; empty for any other text.
std::string without_separators(std::string_view value) {
  constexpr std::size_t kLongest = 40;
  if (value.size() > kLongest || value.find('_') == std::string_view::npos) return {};
  std::string plain;
  for (const char c : value)
    if (c != '_') plain += c;
  const std::size_t sign = plain.starts_with('-') || plain.starts_with('+') ? 1 : 0;
  const bool is_number = plain.size() > sign && value[sign] != '_' && value.back() != '_' &&
                         plain.find_first_not_of("0123456789", sign) == std::string::npos;
  return is_number ? plain : std::string{};
}

}  // namespace

// YAML 1.1 spells booleans in many ways; configurations use these.
Node yaml_scalar(std::string_view value) {
  for (const std::string_view yes : {"yes", "on"})
    if (equals_ignoring_case(value, yes)) return parse_scalar("true");
  for (const std::string_view no : {"no", "off"})
    if (equals_ignoring_case(value, no)) return parse_scalar("false");
  if (value.empty() || is_null_word(value)) return Node{};
  if (value.front() == '[' || value.front() == '"' || value.front() == '\'' || equals_ignoring_case(value, "none"))
    return text_of(value);
  if (const std::string plain = without_separators(value); !plain.empty()) return parse_scalar(plain);
  return parse_scalar(value);
}

PlainYaml parse_plain_yaml(std::string_view text) { return Reader(text).read(); }

}  // namespace plimsoll::document
