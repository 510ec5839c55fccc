// SPDX-License-Identifier: Apache-2.0
#include "job/readers/python_module.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "job/readers/python_expression.h"
#include "job/readers/python_operators.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::int64_t kMostValues = 1'000'000;  // copied from name to name, in a whole file
constexpr std::size_t kMostStatements = 20'000;

constexpr std::string_view kStatements[] = {"import", "from", "if",    "elif",   "else",    "for",    "while", "with",
                                            "try",    "def",  "class", "except", "finally", "assert", "del",   "pass"};

// One statement, lines inside brackets joined, without comments.
struct Statement {
  std::string text;
  std::size_t indent = 0;
  int line = 0;
};

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<Statement>> split() {
    std::vector<Statement> statements;
    Statement current;
    bool is_start = true;
    int open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_start && (c == ' ' || c == '\t')) {
        current.indent += c == '\t' ? 8 : 1;
        ++at_;
        continue;
      }
      if (is_start) current.line = line_;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == '\n' && open <= 0) {
        finish(current, statements);
        if (statements.size() > kMostStatements)
          return bad_input(fmt::format("line {}: more statements than any configuration", line_));
        current = {};
        is_start = true;
        ++line_;
        ++at_;
        continue;
      }
      is_start = false;
      if (const std::size_t length = string_length(); length > 0) {
        take(length, current.text);
        continue;
      }
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        take(2, current.text);
        current.text.resize(current.text.size() - 2);
        continue;
      }
      open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      take(1, current.text);
    }
    if (open > 0) return bad_input(fmt::format("line {}: a bracket is not closed", current.line));
    finish(current, statements);
    return statements;
  }

 private:
  static void finish(Statement& current, std::vector<Statement>& statements) {
    current.text = std::string(trim(current.text));
    if (!current.text.empty()) statements.push_back(std::move(current));
  }
  // Of the string that starts here, a prefix of letters aside; 0 where none does.
  [[nodiscard]] std::size_t string_length() const {
    if (text_[at_] != '"' && text_[at_] != '\'') return 0;
    const auto string = python_string(text_.substr(at_));
    return string ? string->length : 0;
  }
  void take(std::size_t length, std::string& out) {
    const std::string_view piece = text_.substr(at_, length);
    line_ += static_cast<int>(std::count(piece.begin(), piece.end(), '\n'));
    out += piece;
    at_ += length;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

bool is_name(std::string_view text) {
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

struct Assigned {
  std::string name;
  std::string operation;  // "+" of +=
  std::string_view value;
};

// name = value, name: type = value, name += value; nothing for other statements.
std::optional<Assigned> assignment_in(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || text.substr(equals, 2) == "==") return std::nullopt;
  std::string_view left = text.substr(0, equals);
  Assigned assigned;
  for (const std::string_view sign : {"**", "//", "+", "-", "*", "/"})
    if (assigned.operation.empty() && left.ends_with(sign)) {
      assigned.operation = sign;
      left.remove_suffix(sign.size());
    }
  left = trim(left.substr(0, left.find(':')));
  if (!is_name(left)) return std::nullopt;
  assigned.name = left;
  assigned.value = trim(text.substr(equals + 1));
  return assigned;
}

bool starts_with_word(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  return text.size() == word.size() || std::string_view(" (:\t").find(text[word.size()]) != std::string_view::npos;
}

class Module {
 public:
  explicit Module(const std::vector<Statement>& statements) : statements_(statements) {}

  Node run() {
    block(0, statements_.size(), true);
    Node root;
    root.kind = Node::Kind::kObject;
    for (const std::string& name : order_) root.members.emplace_back(name, names_[name]);
    return root;
  }

 private:
  // The end of the deeper statements behind `at`.
  [[nodiscard]] std::size_t end_of_body(std::size_t at, std::size_t end) const {
    std::size_t next = at + 1;
    while (next < end && statements_[next].indent > statements_[at].indent) ++next;
    return next;
  }

  // `is_sure`: false where nobody can say whether the statements run.
  void block(std::size_t begin, std::size_t end, bool is_sure) {
    for (std::size_t at = begin; at < end;) {
      const std::string_view text = statements_[at].text;
      const std::size_t body = end_of_body(at, end);
      if (starts_with_word(text, "if")) {
        at = branches(at, end, is_sure);
        continue;
      }
      const bool is_other = starts_with_word(text, "def") || starts_with_word(text, "class") ||
                            starts_with_word(text, "async") || text.front() == '@';
      if (!is_other && body > at + 1) block(at + 1, body, false);  // for, while, with, try
      if (body == at + 1)
        if (const auto assigned = assignment_in(text)) assign(*assigned, is_sure);
      at = body;
    }
  }

  // if, elif and else; the end behind them.
  std::size_t branches(std::size_t at, std::size_t end, bool is_sure) {
    bool is_decided = is_sure;
    bool is_taken = false;
    while (at < end) {
      std::string_view text = statements_[at].text;
      const std::size_t body = end_of_body(at, end);
      const bool is_else = starts_with_word(text, "else");
      std::optional<bool> truth = true;
      if (!is_else) {
        text.remove_prefix(text.starts_with("elif") ? 4 : 2);
        truth = condition(trim(text.substr(0, text.rfind(':'))));
      }
      if (!truth) is_decided = false;
      const bool runs = is_decided && !is_taken && *truth;
      if (runs || !is_decided) block(at + 1, body, is_decided);
      is_taken = is_taken || runs;
      at = body;
      const bool continues = at < end && (starts_with_word(statements_[at].text, "elif") ||
                                          starts_with_word(statements_[at].text, "else"));
      if (!continues) break;
    }
    return at;
  }

  // A name that nothing assigned cannot decide anything.
  std::optional<bool> condition(std::string_view text) {
    const std::optional<Node> value = evaluate_python(text, names_, budget_);
    if (!value || value->is_object()) return std::nullopt;
    const bool is_name_itself = value->is_string() && names_.find(text) == names_.end();
    return is_name_itself ? std::nullopt : python_truth(*value);
  }

  void assign(const Assigned& assigned, bool is_sure) {
    std::optional<Node> value;
    if (is_sure) value = evaluate_python(assigned.value, names_, budget_);
    if (value && !assigned.operation.empty()) {
      const auto old = names_.find(assigned.name);
      value = old == names_.end() ? std::nullopt : python_arithmetic(old->second, assigned.operation, *value);
    }
    constexpr std::size_t kShown = 200;
    if (!value)
      value = text_node(is_sure ? std::string(assigned.value.substr(0, kShown))
                                : "(decided by a branch that is not in the file)");
    if (names_.find(assigned.name) == names_.end()) order_.push_back(assigned.name);
    names_.insert_or_assign(assigned.name, *std::move(value));
  }

  const std::vector<Statement>& statements_;
  PythonNames names_;
  std::vector<std::string> order_;
  std::int64_t budget_ = kMostValues;
};

}  // namespace

bool looks_like_python_config(std::string_view text) {
  const bool has_table =
      text.find("= dict(") != std::string_view::npos || text.find("=dict(") != std::string_view::npos ||
      (text.find(" = {") != std::string_view::npos && text.find("import ") != std::string_view::npos);
  if (!has_table || text.size() > (1 << 20)) return false;
  const auto statements = Splitter(text).split();
  if (!statements) return false;
  bool assigns = false;
  for (const Statement& statement : *statements) {
    if (statement.indent > 0) continue;
    const std::string_view line = statement.text;
    const auto assigned = assignment_in(line);
    if (assigned && (assigned->value.starts_with("dict(") || assigned->value.starts_with("{"))) assigns = true;
    const bool is_known = assigned || line.front() == '"' || line.front() == '\'' || line.front() == '@' ||
                          std::any_of(std::begin(kStatements), std::end(kStatements),
                                      [line](std::string_view word) { return starts_with_word(line, word); });
    // A call, or an assignment to a part: name(...), name.part = value, name[key] = value.
    const std::size_t end = line.find_first_of("([.,");
    if (!is_known && (end == std::string_view::npos || !is_name(line.substr(0, end)))) return false;
  }
  return assigns;
}

Result<Node> read_python_module(std::string_view text) {
  PLIMSOLL_TRY(statements, Splitter(text).split());
  return Module(statements).run();
}

}  // namespace plimsoll::job
