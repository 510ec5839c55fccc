// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_variables.h"

#include <algorithm>

#include <fmt/format.h>

#include "job/readers/shell_arithmetic.h"

namespace plimsoll::job {

namespace {

// A script whose variables double each other would otherwise fill memory.
constexpr std::size_t kMaxExpanded = 1 << 20;
constexpr int kMaxDepth = 24;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::size_t name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return 0;
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name_char) - text.begin());
}

// Each name once and only the first few: words that hold each other would otherwise double the list
// every time, and a message names one of them.
void note_unknown(ShellWord& word, const std::string& name) {
  constexpr std::size_t kNamed = 8;
  if (word.unknown.size() < kNamed && std::find(word.unknown.begin(), word.unknown.end(), name) == word.unknown.end())
    word.unknown.push_back(name);
}

}  // namespace

bool is_name(std::string_view text) { return !text.empty() && name_length(text) == text.size(); }

std::size_t end_of_substitution(std::string_view text, std::size_t at) {
  if (text[at] == '`') {
    const std::size_t end = text.find('`', at + 1);
    return end == std::string_view::npos ? end : end + 1;
  }
  std::string closers;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == '\'' && (closers.empty() || closers.back() != '"')) {
      i = text.find('\'', i + 1);
      if (i == std::string_view::npos) return i;
    } else if (c == '"') {
      if (!closers.empty() && closers.back() == '"') {
        closers.pop_back();
      } else {
        closers += '"';
      }
    } else if (c == '(' || c == '{') {
      if (closers.empty() || closers.back() != '"' || text[i - 1] == '$') closers += c == '(' ? ')' : '}';
    } else if (!closers.empty() && c == closers.back()) {
      closers.pop_back();
      if (closers.empty()) return i + 1;
    }
  }
  return std::string_view::npos;
}

// Words under construction.
struct ShellVariables::Expansion {
  std::vector<ShellWord> done;
  ShellWord current;
  bool has_current = false;  // an empty quoted word counts
  std::size_t size = 0;
  bool splits = true;  // off: one word, parts joined by spaces

  void append(std::string_view text) {
    current.text += text;
    has_current = true;
    size += text.size() + 1;
  }
  void unknown(const std::string& name) {
    note_unknown(current, name);
    has_current = true;
    ++size;
  }
  void finish() {
    if (has_current) done.push_back(std::move(current));
    current = {};
    has_current = false;
  }
  // Text of an unquoted variable: white space separates words.
  void append_split(std::string_view text) {
    if (!splits) return append(text);
    for (std::size_t at = 0; at < text.size();) {
      if (is_blank(text[at])) {
        finish();
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < text.size() && !is_blank(text[end])) ++end;
      append(text.substr(at, end - at));
      at = end;
    }
  }
};

void ShellVariables::set(std::string_view name, std::vector<ShellWord> words, bool is_array, bool append, bool sure) {
  Variable& variable = variables_[std::string(name)];
  const auto same = [](const ShellWord& a, const ShellWord& b) { return a.text == b.text && a.unknown == b.unknown; };
  if (append) {
    if (!sure) {
      // Later words may or may not be there.
      const std::string why = fmt::format("{} (extended inside a condition)", name);
      const bool is_noted = !variable.words.empty() && variable.words.back().unknown == std::vector<std::string>{why};
      if (!is_noted) variable.words.push_back(ShellWord{{}, {why}});
      return;
    }
    if (is_array || variable.is_array) {
      variable.words.insert(variable.words.end(), words.begin(), words.end());
    } else {
      if (variable.words.empty()) variable.words.emplace_back();
      for (ShellWord& word : words) {
        variable.words.front().text += word.text;
        for (const std::string& unknown : word.unknown) note_unknown(variable.words.front(), unknown);
      }
    }
    std::size_t size = 0;
    for (const ShellWord& word : variable.words) size += word.text.size() + 1;
    if (size > kMaxExpanded) variable.words = {ShellWord{{}, {fmt::format("{} (too long)", name)}}};
    return;
  }
  const bool unchanged = std::equal(words.begin(), words.end(), variable.words.begin(), variable.words.end(), same);
  variable.is_array = is_array;
  if (sure || unchanged) {
    variable.words = std::move(words);
  } else {
    variable.words = {ShellWord{{}, {fmt::format("{} (set inside a condition)", name)}}};
  }
}

const std::vector<ShellWord>* ShellVariables::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second.words;
}

void ShellVariables::append_variable(std::string_view name, bool quoted, bool all, Expansion& out) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return out.unknown(std::string(name));
  const Variable& variable = found->second;
  const std::size_t count = all ? variable.words.size() : std::min<std::size_t>(variable.words.size(), 1);
  for (std::size_t i = 0; i < count; ++i) {
    const ShellWord& word = variable.words[i];
    if (i > 0 && out.splits) out.finish();
    if (i > 0 && !out.splits) out.append(" ");
    if (quoted || (all && variable.is_array)) {
      out.append(word.text);
    } else {
      out.append_split(word.text);
    }
    for (const std::string& unknown : word.unknown) out.unknown(unknown);
    if (out.size > kMaxExpanded) return;
  }
}

Status ShellVariables::expand_braces(std::string_view inside, bool quoted, int depth, Expansion& out) const {
  const std::size_t length = name_length(inside);
  const std::string_view name = inside.substr(0, length);
  std::string_view rest = inside.substr(length);
  if (length == 0) {
    out.unknown(std::string(inside.substr(0, 40)));
    return {};
  }
  if (rest == "[@]" || rest == "[*]") {
    append_variable(name, quoted, true, out);
    return {};
  }
  if (rest.empty()) {
    append_variable(name, quoted, false, out);
    return {};
  }
  const bool colon = rest.front() == ':';
  const std::string_view operation = rest.substr(colon ? 1 : 0, 1);
  const std::string_view word = rest.substr(std::min(rest.size(), std::size_t{colon ? 2U : 1U}));
  const auto found = variables_.find(name);
  const bool is_set = found != variables_.end();
  const bool is_empty = is_set && (found->second.words.empty() || (found->second.words.front().text.empty() &&
                                                                   found->second.words.front().unknown.empty()));
  const bool use_value = is_set && !(colon && is_empty);
  if (operation == "-" || operation == "=") {
    if (use_value) {
      append_variable(name, quoted, false, out);
      return {};
    }
    return expand_into(word, depth + 1, out);
  }
  if (operation == "+") return use_value ? expand_into(word, depth + 1, out) : Status{};
  if (operation == "?") {
    append_variable(name, quoted, false, out);
    return {};
  }
  out.unknown(fmt::format("{} (edited by ${{{}}})", name, inside.substr(0, 40)));
  return {};
}

Status ShellVariables::expand_dollar(std::string_view raw, std::size_t& at, bool quoted, int depth,
                                     Expansion& out) const {
  if (raw[at] == '`') {
    const std::size_t end = end_of_substitution(raw, at);
    out.unknown("the output of a command");
    at = end == std::string_view::npos ? raw.size() : end;
    return {};
  }
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (next == '(' || next == '{') {
    const std::size_t end = end_of_substitution(raw, at);
    if (end == std::string_view::npos) return bad_input("a ${...} or $(...) is not closed");
    const std::string_view whole = raw.substr(at, end - at);
    at = end;
    if (next == '{') return expand_braces(whole.substr(2, whole.size() - 3), quoted, depth, out);
    if (whole.substr(0, 3) != "$((" || whole.size() < 5) {
      out.unknown("the output of a command");
      return {};
    }
    // Names in arithmetic stand for variables without a dollar, too.
    std::string expression(whole.substr(3, whole.size() - 5));
    std::string with_dollars;
    for (std::size_t i = 0; i < expression.size();) {
      const std::size_t length = name_length(std::string_view(expression).substr(i));
      const char before = i > 0 ? expression[i - 1] : ' ';
      if (length > 0 && before != '$' && before != '{' && !is_name_char(before)) with_dollars += '$';
      with_dollars += expression.substr(i, std::max<std::size_t>(length, 1));
      i += std::max<std::size_t>(length, 1);
    }
    Expansion inner;
    PLIMSOLL_TRY_STATUS(expand_into(with_dollars, depth + 1, inner));
    inner.finish();
    std::string text;
    bool is_known = true;
    for (const ShellWord& word : inner.done) {
      text += word.text + " ";
      for (const std::string& unknown : word.unknown) out.unknown(unknown);
      is_known = is_known && word.unknown.empty();
    }
    if (!is_known) return {};
    const auto value = evaluate_arithmetic(text);
    if (value) {
      out.append(std::to_string(*value));
    } else {
      out.unknown("an arithmetic expression");
    }
    return {};
  }
  const std::size_t length = name_length(raw.substr(at + 1));
  if (length > 0) {
    append_variable(raw.substr(at + 1, length), quoted, false, out);
    at += 1 + length;
    return {};
  }
  if (next != '\0' && std::string_view("@*#?$!-0123456789").find(next) != std::string_view::npos) {
    out.unknown(fmt::format("${} of the script", next));
    at += 2;
    return {};
  }
  out.append("$");
  ++at;
  return {};
}

Status ShellVariables::expand_into(std::string_view raw, int depth, Expansion& out) const {
  if (depth > kMaxDepth) return bad_input("variables are nested too deeply");
  bool in_double = false;
  for (std::size_t at = 0; at < raw.size();) {
    if (out.size > kMaxExpanded) return bad_input("a word expands beyond any command line");
    const char c = raw[at];
    if (c == '\'' && !in_double) {
      const std::size_t end = std::min(raw.find('\'', at + 1), raw.size());
      out.append(raw.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (c == '"') {
      in_double = !in_double;
      out.has_current = true;
      ++at;
    } else if (c == '\\' && at + 1 < raw.size()) {
      if (raw[at + 1] != '\n') out.append(raw.substr(at + 1, 1));
      at += 2;
    } else if (c == '$' || c == '`') {
      PLIMSOLL_TRY_STATUS(expand_dollar(raw, at, in_double, depth, out));
    } else {
      out.append(raw.substr(at, 1));
      ++at;
    }
  }
  return {};
}

Result<std::vector<ShellWord>> ShellVariables::expand(std::string_view raw) const {
  Expansion out;
  PLIMSOLL_TRY_STATUS(expand_into(raw, 0, out));
  out.finish();
  return std::move(out.done);
}

Result<ShellWord> ShellVariables::expand_value(std::string_view raw) const {
  Expansion out;
  out.splits = false;
  PLIMSOLL_TRY_STATUS(expand_into(raw, 0, out));
  return std::move(out.current);
}

}  // namespace plimsoll::job
