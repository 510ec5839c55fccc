// SPDX-License-Identifier: Apache-2.0
#include "job/readers/python_expression.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "job/readers/python_operators.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr int kDeepest = 48;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int depth_of(const Node& node) {
  int deepest = 0;
  for (const Node& item : node.items) deepest = std::max(deepest, depth_of(item));
  for (const auto& member : node.members) deepest = std::max(deepest, depth_of(member.second));
  return deepest + 1;
}

// Recursive descent in the order of Python's precedence; every level gives nothing for what it does not know.
class Reader {
 public:
  Reader(std::string_view text, const PythonNames& names, std::int64_t& budget)
      : text_(text), names_(names), budget_(budget) {}

  using Value = std::optional<Node>;

  Value read() {
    Value value = choice(0);
    skip_spaces();
    if (accept(',')) return tuple(std::move(value));
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  // a, b, c without parentheses.
  Value tuple(Value first) {
    Node list;
    list.kind = Node::Kind::kArray;
    while (first) {
      list.items.push_back(*std::move(first));
      skip_spaces();
      if (at_ == text_.size()) return list;
      first = choice(0);
      skip_spaces();
      if (first && at_ != text_.size() && !accept(',')) return std::nullopt;
    }
    return std::nullopt;
  }
  // a if b else c
  Value choice(int depth) {
    if (depth > kDeepest) return std::nullopt;
    Value value = any(depth);
    if (!value || !accept_word("if")) return value;
    const Value condition = any(depth + 1);
    if (!condition || !accept_word("else")) return std::nullopt;
    Value other = choice(depth + 1);
    const std::optional<bool> truth = python_truth(*condition);
    if (!truth || !other) return std::nullopt;
    return *truth ? value : other;
  }
  Value any(int depth) {
    Value left = all(depth);
    while (left && accept_word("or")) {
      Value right = all(depth);
      const std::optional<bool> truth = python_truth(*left);
      if (!right || !truth) return std::nullopt;
      if (!*truth) left = std::move(right);
    }
    return left;
  }
  Value all(int depth) {
    Value left = negation(depth);
    while (left && accept_word("and")) {
      Value right = negation(depth);
      const std::optional<bool> truth = python_truth(*left);
      if (!right || !truth) return std::nullopt;
      if (*truth) left = std::move(right);
    }
    return left;
  }
  Value negation(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (!accept_word("not")) return comparison(depth);
    const Value value = negation(depth + 1);
    const std::optional<bool> truth = value ? python_truth(*value) : std::nullopt;
    return truth ? Value(bool_node(!*truth)) : std::nullopt;
  }
  Value comparison(int depth) {
    Value left = sum(depth);
    if (!left) return left;
    skip_spaces();
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"})
      if (accept_sign(sign)) {
        const Value right = sum(depth);
        return right ? python_compare(*left, sign, *right) : std::nullopt;
      }
    if (!accept_word("is")) return left;
    const bool differs = accept_word("not");
    const Value right = sum(depth);
    if (!right || !right->is_null()) return std::nullopt;
    return bool_node(left->is_null() != differs);
  }
  Value sum(int depth) {
    Value left = product(depth);
    while (left) {
      skip_spaces();
      const std::string_view sign = accept_sign("+") ? "+" : accept_sign("-") ? "-" : "";
      if (sign.empty()) break;
      const Value right = product(depth);
      left = right ? python_arithmetic(*left, sign, *right) : std::nullopt;
    }
    return left;
  }
  Value product(int depth) {
    Value left = signed_value(depth);
    while (left) {
      skip_spaces();
      const std::string_view sign = accept_sign("//")  ? "//"
                                    : accept_sign("*") ? "*"
                                    : accept_sign("/") ? "/"
                                    : accept_sign("%") ? "%"
                                                       : "";
      if (sign.empty()) break;
      const Value right = signed_value(depth);
      left = right ? python_arithmetic(*left, sign, *right) : std::nullopt;
    }
    return left;
  }
  Value signed_value(int depth) {
    if (depth > kDeepest) return std::nullopt;
    skip_spaces();
    if (accept_sign("-")) {
      const Value value = signed_value(depth + 1);
      return value ? python_arithmetic(integer_node(0), "-", *value) : std::nullopt;
    }
    if (accept_sign("+")) return signed_value(depth + 1);
    Value base = subscripted(depth);
    if (!base || !accept_sign("**")) return base;
    const Value exponent = signed_value(depth + 1);
    return exponent ? python_arithmetic(*base, "**", *exponent) : std::nullopt;
  }
  // data["total_steps"], paths[0]
  Value subscripted(int depth) {
    Value value = atom(depth);
    while (value && accept('[')) {
      const Value key = choice(depth + 1);
      if (!key || !accept(']')) return std::nullopt;
      const Node* found = nullptr;
      if (value->is_object() && key->is_string()) found = value->find(key->text);
      if (value->is_array() && key->is_integer() && key->integer >= 0 &&
          key->integer < static_cast<std::int64_t>(value->items.size()))
        found = &value->items[static_cast<std::size_t>(key->integer)];
      if (found == nullptr) return std::nullopt;
      Node inner = *found;
      value = std::move(inner);
    }
    if (value && at_ < text_.size() && text_[at_] == '.') return std::nullopt;  // a method of a value
    return value;
  }
  Value atom(int depth) {
    if (depth > kDeepest) return std::nullopt;
    skip_spaces();
    if (at_ >= text_.size()) return std::nullopt;
    const char c = text_[at_];
    if (c == '(' || c == '[') return list(c, depth);
    if (c == '{') return dictionary(depth);
    if ((c >= '0' && c <= '9') || c == '.') return number();
    if (std::optional<PythonString> string = python_string(text_.substr(at_))) return strings(*std::move(string));
    return name(depth);
  }
  // Strings that stand beside each other are one.
  Value strings(std::optional<PythonString> string) {
    std::string whole;
    while (string) {
      at_ += string->length;
      std::optional<std::string> text =
          string->is_formatted ? python_format(string->text, names_) : std::optional(std::move(string->text));
      if (!text) return std::nullopt;
      whole += *text;
      skip_spaces();
      string = python_string(text_.substr(std::min(at_, text_.size())));
    }
    return text_node(std::move(whole));
  }
  Value number() {
    std::string digits;
    const auto is_exponent = [&digits] { return !digits.empty() && (digits.back() == 'e' || digits.back() == 'E'); };
    while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.' ||
                                  ((text_[at_] == '-' || text_[at_] == '+') && is_exponent()))) {
      if (text_[at_] != '_') digits += text_[at_];
      ++at_;
    }
    const Node value = document::parse_scalar(digits);
    return value.is_number() ? Value(value) : std::nullopt;
  }
  Value list(char open, int depth) {
    const char close = open == '(' ? ')' : ']';
    ++at_;
    Node list;
    list.kind = Node::Kind::kArray;
    bool has_comma = false;
    while (!accept(close)) {
      Value item = choice(depth + 1);
      if (!item) return std::nullopt;
      list.items.push_back(*std::move(item));
      if (accept(',')) {
        has_comma = true;
      } else if (!accept(close)) {
        return std::nullopt;
      } else {
        break;
      }
    }
    if (open == '(' && !has_comma && list.items.size() == 1) {
      Node inner = std::move(list.items.front());
      return inner;
    }
    return list;
  }
  Value dictionary(int depth) {
    ++at_;
    Node table;
    table.kind = Node::Kind::kObject;
    while (!accept('}')) {
      if (accept_sign("**")) {
        const Value spread = choice(depth + 1);
        if (!spread || !spread->is_object()) return std::nullopt;
        for (const auto& [key, value] : spread->members) set_member(table, key, value);
      } else {
        const Value key = choice(depth + 1);
        if (!key || !accept(':')) return std::nullopt;
        Value value = choice(depth + 1);
        if (!value) return std::nullopt;
        set_member(table, document::to_text(*key), *std::move(value));
      }
      if (!accept(',') && !follows('}')) return std::nullopt;
    }
    return table;
  }
  // A variable, a constant, a class, or a call.
  Value name(int depth) {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (word.empty()) return std::nullopt;
    for (const std::string_view other : {"lambda", "for", "if", "else", "in", "not", "and", "or", "await", "yield"})
      if (word == other) return std::nullopt;
    if (word == "True" || word == "False") return bool_node(word == "True");
    if (word == "None") return Node{};
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '(') return call(word, depth);
    const auto found = names_.find(word.substr(0, word.find('.')));
    if (found == names_.end()) return text_node(std::string(word));
    if (word.find('.') != std::string_view::npos) return std::nullopt;  // an attribute of a value
    budget_ -= count_values(found->second);
    return budget_ < 0 ? std::nullopt : Value(found->second);
  }
  Value call(std::string_view callee, int depth) {
    ++at_;
    Node arguments;
    arguments.kind = Node::Kind::kObject;
    Node positions;
    positions.kind = Node::Kind::kArray;
    while (!accept(')')) {
      skip_spaces();
      if (accept_sign("**")) {
        const Value spread = choice(depth + 1);
        if (!spread || !spread->is_object()) return std::nullopt;
        for (const auto& [key, value] : spread->members) set_member(arguments, key, value);
      } else {
        const std::string_view keyword = take_keyword();
        Value value = choice(depth + 1);
        if (!value) return std::nullopt;
        if (keyword.empty()) {
          positions.items.push_back(*std::move(value));
        } else {
          set_member(arguments, keyword, *std::move(value));
        }
      }
      if (!accept(',') && !follows(')')) return std::nullopt;
    }
    if (callee == "dict" && positions.items.empty()) return arguments;
    if (names_.find(callee.substr(0, callee.find('.'))) != names_.end()) return std::nullopt;  // a method of a value
    if (arguments.members.empty())
      if (const std::optional<Node> value = python_builtin(callee, positions.items)) return value;
    arguments.members.emplace(arguments.members.begin(), "_target_", text_node(std::string(callee)));
    if (!positions.items.empty()) arguments.members.emplace_back("_args_", std::move(positions));
    return arguments;
  }
  // The keyword in front of a value, its = included; empty where the value has none.
  std::string_view take_keyword() {
    std::size_t end = at_;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == '\n')) ++end;
    const bool is_keyword =
        !word.empty() && end < text_.size() && text_[end] == '=' && (end + 1 >= text_.size() || text_[end + 1] != '=');
    if (!is_keyword) return {};
    at_ = end + 1;
    return word;
  }
  static void set_member(Node& table, std::string_view key, Node value) {
    for (auto& [name, old] : table.members)
      if (name == key) {
        old = std::move(value);
        return;
      }
    table.members.emplace_back(std::string(key), std::move(value));
  }
  bool follows(char c) {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!follows(c)) return false;
    ++at_;
    return true;
  }
  bool accept_sign(std::string_view sign) {
    skip_spaces();
    if (text_.substr(std::min(at_, text_.size()), sign.size()) != sign) return false;
    if (sign == "*" && text_.substr(at_, 2) == "**") return false;
    at_ += sign.size();
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_spaces();
    const std::size_t end = at_ + word.size();
    if (text_.substr(std::min(at_, text_.size()), word.size()) != word) return false;
    if (end < text_.size() && is_name_char(text_[end])) return false;
    at_ = end;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  const PythonNames& names_;
  std::int64_t& budget_;
};

}  // namespace

std::optional<Node> evaluate_python(std::string_view text, const PythonNames& names, std::int64_t& budget) {
  std::optional<Node> value = Reader(text, names, budget).read();
  if (value && depth_of(*value) > document::kMaxDepth) return std::nullopt;
  return value;
}

std::optional<bool> python_truth(const Node& value) {
  switch (value.kind) {
    case Node::Kind::kNull:
      return false;
    case Node::Kind::kBool:
      return value.boolean;
    case Node::Kind::kInteger:
      return value.integer != 0;
    case Node::Kind::kReal:
      return value.real != 0;
    case Node::Kind::kString:
      return !value.text.empty();
    case Node::Kind::kArray:
      return !value.items.empty();
    case Node::Kind::kObject:
      return !value.members.empty();
  }
  return std::nullopt;
}

}  // namespace plimsoll::job
