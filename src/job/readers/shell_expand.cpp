// SPDX-License-Identifier: Apache-2.0
// Expansion of words: quotes, variables and their edits, arithmetic, and the few commands whose output follows
// from the script alone.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.h"
#include "job/readers/shell_arithmetic.h"
#include "job/readers/shell_patterns.h"
#include "job/readers/shell_syntax.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

namespace {

constexpr int kMaxDepth = 24;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::size_t name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return 0;
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name_char) - text.begin());
}

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string folder_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

// Without "." and ".." inside; links are not looked up.
std::string normal_path(std::string_view path) {
  const std::string text = std::filesystem::path(path).lexically_normal().string();
  return text.empty() ? "." : text;
}

// s#from#to# and s/from/to/g, where `from` is plain text.
bool substitute(std::string_view command, std::string& text) {
  if (command.size() < 4 || command.front() != 's') return false;
  const std::vector<std::string_view> parts = split(command.substr(2), command[1]);
  if (parts.size() != 3 || parts[0].empty() || (!parts[2].empty() && parts[2] != "g")) return false;
  if (parts[0].find_first_of("*[]^$\\+?(){}|") != std::string_view::npos) return false;
  if (parts[1].find_first_of("\\&") != std::string_view::npos) return false;
  std::size_t at = text.find(parts[0]);
  for (int round = 0; at != std::string::npos && round < 1000; ++round) {
    text.replace(at, parts[0].size(), parts[1]);
    if (parts[2].empty()) break;
    at = text.find(parts[0], at + parts[1].size());
  }
  return text.size() < (1U << 16U);
}

}  // namespace

// Words under construction.
struct ShellVariables::Expansion {
  std::vector<ShellWord> done;
  ShellWord current;
  bool has_current = false;  // an empty quoted word counts
  std::size_t size = 0;
  bool splits = true;         // off: one word, parts joined by spaces
  bool is_condition = false;  // a variable that nothing sets is empty

  void append(std::string_view text) {
    current.text += text;
    has_current = true;
    size += text.size();
  }
  void unknown(std::string_view name) { append(marked(name)); }
  void finish() {
    if (has_current) {
      done.push_back(taken());
      size += 16;
    }
    current = {};
    has_current = false;
  }
  ShellWord taken() {
    current.unknown = marked_names(current.text);
    return std::move(current);
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
      append(text.substr(at, end - at));  // marks hold no blanks
      at = end;
    }
  }
};

void ShellVariables::append_words(const std::vector<ShellWord>& words, bool quoted, bool star, Expansion& out) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    const bool joins = !out.splits || (star && quoted);
    if (i > 0 && !joins) out.finish();
    if (i > 0 && joins) out.append(" ");
    if (quoted) {
      out.append(word.text);
    } else {
      out.append_split(word.text);
    }
  }
}

void ShellVariables::append_unset(std::string_view name, Expansion& out) {
  if (!out.is_condition) return out.unknown(name);
  if (assumed_unset_.size() < 64) assumed_unset_.emplace(name);
  out.has_current = true;
}

void ShellVariables::append_variable(std::string_view name, bool quoted, Expansion& out) {
  const ShellVariable* variable = find(name);
  if (variable == nullptr) return append_unset(name, out);
  if (variable->words.size() > 1) return append_words({variable->words.front()}, quoted, false, out);
  append_words(variable->words, quoted, false, out);
}

Status ShellVariables::expand_element(std::string_view name, std::string_view index, bool quoted, int depth,
                                      Expansion& out) {
  const ShellVariable* array = find(name);
  if (index == "@" || index == "*") {
    if (array == nullptr) {
      append_unset(name, out);
      return {};
    }
    PLIMSOLL_TRY_STATUS(spend(array->words.size(), 0));
    append_words(array->words, quoted, index == "*", out);
    return {};
  }
  Expansion inner;
  inner.splits = false;
  PLIMSOLL_TRY_STATUS(expand_into(index, depth + 1, inner));
  inner.current = inner.taken();
  if (const ShellVariable* single = find(fmt::format("{}[{}]", name, inner.current.text))) {
    append_words(single->words, quoted, false, out);
    return {};
  }
  if (array == nullptr || !inner.current.unknown.empty()) {
    out.unknown(fmt::format("{}[{}]", name, index.substr(0, 40)));
    return {};
  }
  const std::string key = fmt::format("[{}]=", inner.current.text);
  for (const ShellWord& word : array->words)
    if (word.text.substr(0, key.size()) == key) {
      append_words({ShellWord{word.text.substr(key.size()), word.unknown}}, quoted, false, out);
      return {};
    }
  const auto number = evaluate_arithmetic(inner.current.text);
  const auto size = static_cast<std::int64_t>(array->words.size());
  if (number && *number >= -size && *number < size) {
    append_words({array->words[static_cast<std::size_t>(*number < 0 ? *number + size : *number)]}, quoted, false, out);
  } else {
    out.unknown(fmt::format("{}[{}]", name, index.substr(0, 40)));
  }
  return {};
}

// ${x%p}, ${x#p}, ${x/a/b}, ${x:1:2}, ${x^^}
Status ShellVariables::expand_edited(std::string_view name, std::string_view rest, bool quoted, int depth,
                                     Expansion& out) {
  const ShellVariable* variable = find(name);
  const auto give_up = [&] {
    out.unknown(fmt::format("{} (edited by ${{{}{}}})", name, name, rest.substr(0, 40)));
    return Status{};
  };
  if (variable == nullptr || variable->words.size() != 1 || !variable->words.front().unknown.empty()) return give_up();
  const std::string text = variable->words.front().text;
  std::optional<std::string> result;
  const char sign = rest.front();
  const bool is_double = rest.size() > 1 && rest[1] == sign;
  const auto expanded = [&](std::string_view raw) -> Result<ShellWord> {
    Expansion inner;
    inner.splits = false;
    PLIMSOLL_TRY_STATUS(expand_into(raw, depth + 1, inner));
    return inner.taken();
  };
  if (sign == '%' || sign == '#') {
    PLIMSOLL_TRY(pattern, expanded(rest.substr(is_double ? 2 : 1)));
    PLIMSOLL_TRY_STATUS(spend(text.size(), 0));
    if (pattern.unknown.empty())
      result =
          sign == '%' ? without_suffix(text, pattern.text, is_double) : without_prefix(text, pattern.text, is_double);
  } else if (sign == '/') {
    const std::string_view both = rest.substr(is_double ? 2 : 1);
    const std::size_t slash = both.find('/');
    PLIMSOLL_TRY(from, expanded(both.substr(0, slash)));
    PLIMSOLL_TRY(to, expanded(slash == std::string_view::npos ? std::string_view{} : both.substr(slash + 1)));
    if (from.unknown.empty() && to.unknown.empty()) result = with_replaced(text, from.text, to.text, is_double);
  } else if (sign == '^' || sign == ',') {
    if (is_double && rest.size() == 2) {
      result = lower(text);
      if (sign == '^')
        std::transform(result->begin(), result->end(), result->begin(),
                       [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    }
  } else if (sign == ':') {
    const std::string_view both = rest.substr(1);
    const std::size_t colon = both.find(':');
    const auto from = evaluate_arithmetic(both.substr(0, colon));
    const auto length = colon == std::string_view::npos ? std::optional<std::int64_t>(1 << 24)
                                                        : evaluate_arithmetic(both.substr(colon + 1));
    const auto size = static_cast<std::int64_t>(text.size());
    if (from && length && *length >= 0 && *from <= size && *from >= -size)
      result =
          text.substr(static_cast<std::size_t>(*from < 0 ? *from + size : *from), static_cast<std::size_t>(*length));
  }
  if (!result) return give_up();
  append_words({ShellWord{std::move(*result), {}}}, quoted, false, out);
  return {};
}

Status ShellVariables::expand_braces(std::string_view inside, bool quoted, int depth, Expansion& out) {
  if (inside.substr(0, 1) == "#" && inside.size() > 1) {  // a length
    const std::string_view name = inside.substr(1, name_length(inside.substr(1)));
    const ShellVariable* variable = find(name);
    const bool of_array = inside.size() > name.size() + 1;
    if (variable == nullptr) {
      out.unknown(std::string(inside.substr(0, 40)));
    } else {
      const bool is_known = std::all_of(variable->words.begin(), variable->words.end(),
                                        [](const ShellWord& word) { return word.unknown.empty(); });
      if (!is_known) {
        out.unknown(std::string(inside.substr(0, 40)));
      } else {
        out.append(std::to_string(of_array                  ? variable->words.size()
                                  : variable->words.empty() ? 0
                                                            : variable->words.front().text.size()));
      }
    }
    return {};
  }
  if (inside.substr(0, 1) == "!") {  // the variable that a variable names
    const ShellVariable* variable = find(inside.substr(1));
    const bool is_known = variable != nullptr && variable->words.size() == 1 &&
                          variable->words.front().unknown.empty() && is_name(variable->words.front().text);
    if (is_known) {
      append_variable(std::string(variable->words.front().text), quoted, out);
    } else {
      out.unknown(std::string(inside.substr(0, 40)));
    }
    return {};
  }
  std::size_t length = name_length(inside);
  const bool is_digit = !inside.empty() && inside.find_first_not_of("0123456789") != 0;
  if (length == 0 && is_digit) {
    length = std::min(inside.find_first_not_of("0123456789"), inside.size());
    const std::string_view digits = inside.substr(0, length);
    const std::string_view rest = inside.substr(length);
    const auto at = evaluate_arithmetic(digits);
    const bool known = positional && at && *at >= 1 && *at <= static_cast<std::int64_t>(positional->size());
    if (known) {
      append_words({(*positional)[static_cast<std::size_t>(*at - 1)]}, quoted, false, out);
      return {};
    }
    if (rest.substr(0, 2) == ":-" || rest.substr(0, 1) == "-")
      return expand_into(rest.substr(rest.front() == ':' ? 2 : 1), depth + 1, out);
    if (positional) {
      out.has_current = out.has_current || quoted;
    } else {
      out.unknown(fmt::format("${} of the script", digits));
    }
    return {};
  }
  const std::string_view name = inside.substr(0, length);
  std::string_view rest = inside.substr(length);
  if (length == 0) {
    if ((inside == "@" || inside == "*") && positional) {
      append_words(*positional, quoted, inside == "*", out);
    } else {
      out.unknown(std::string(inside.substr(0, 40)));
    }
    return {};
  }
  if (rest.substr(0, 1) == "[") {
    const std::size_t end = rest.find(']');
    if (end != std::string_view::npos) {
      const std::string_view index = rest.substr(1, end - 1);
      const std::string_view behind = rest.substr(end + 1);
      const ShellVariable* array = find(name);
      const bool falls_back = behind.substr(0, 2) == ":-" || behind.substr(0, 1) == "-";
      if (array == nullptr && falls_back)
        return expand_into(behind.substr(behind.front() == ':' ? 2 : 1), depth + 1, out);
      if (behind.empty() || falls_back) return expand_element(name, index, quoted, depth, out);
    }
    out.unknown(fmt::format("{} (edited by ${{{}}})", name, inside.substr(0, 40)));
    return {};
  }
  if (rest.empty()) {
    append_variable(name, quoted, out);
    return {};
  }
  const bool colon = rest.front() == ':';
  const std::string_view operation = rest.substr(colon ? 1 : 0, 1);
  const std::string_view word = rest.substr(std::min(rest.size(), std::size_t{colon ? 2U : 1U}));
  const ShellVariable* variable = find(name);
  // "X=$1; X=${X:-default}" is "${1:-default}": without arguments the default holds.
  const auto may_be_empty = [](const ShellWord& held) {
    return without_marks(held.text).empty() &&
           (held.unknown.empty() || (held.unknown.size() == 1 && held.unknown.front()[0] == '$' &&
                                     held.unknown.front().ends_with(" of the script")));
  };
  const bool is_empty = variable != nullptr && (variable->words.empty() || may_be_empty(variable->words.front()));
  const bool use_value = variable != nullptr && !(colon && is_empty);
  if (operation == "-" || operation == "=") {
    if (use_value) {
      append_variable(name, quoted, out);
      return {};
    }
    if (operation == "=") {
      PLIMSOLL_TRY(value, expand_value(word, out.is_condition));
      PLIMSOLL_TRY_STATUS(set(name, {value}, false, false));
    }
    return expand_into(word, depth + 1, out);
  }
  if (operation == "+") {
    out.has_current = out.has_current || quoted;
    return use_value ? expand_into(word, depth + 1, out) : Status{};
  }
  if (operation == "?") {
    append_variable(name, quoted, out);
    return {};
  }
  return expand_edited(name, rest, quoted, depth, out);
}

Status ShellVariables::expand_arithmetic(std::string_view expression, int depth, Expansion& out) {
  // Names in arithmetic stand for variables without a dollar, too.
  std::string with_dollars;
  for (std::size_t i = 0; i < expression.size();) {
    const std::size_t length = name_length(expression.substr(i));
    const char before = i > 0 ? expression[i - 1] : ' ';
    if (length > 0 && before != '$' && before != '{' && !is_name_char(before)) with_dollars += '$';
    with_dollars += expression.substr(i, std::max<std::size_t>(length, 1));
    i += std::max<std::size_t>(length, 1);
  }
  Expansion inner;
  inner.is_condition = out.is_condition;
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
  if (const auto value = evaluate_arithmetic(text)) {
    out.append(std::to_string(*value));
  } else {
    out.unknown("an arithmetic expression");
  }
  return {};
}

// $(basename X), $(dirname X), $(realpath X), $(cd X && pwd), $(echo X), $(echo "2 * 4" | bc), $(echo X | sed
// 's/a/b/'): the few whose output is in the script.
Status ShellVariables::expand_command(std::string_view command, bool quoted, int depth, Expansion& out) {
  const auto give_up = [&out] {
    out.unknown("the output of a command");
    return Status{};
  };
  if (depth > kMaxDepth) return give_up();
  auto script = parse_shell(command);
  if (!script || script->body.empty() || script->body.size() > 2) return give_up();
  // $(cat <<EOF ...): the text between.
  const ShellNode& only = script->body.front();
  const bool is_document = script->body.size() == 1 && only.kind == ShellNode::Kind::kSimple &&
                           only.here_document >= 0 && only.words.size() == 1 && only.words.front().text == "cat";
  if (is_document) {
    const HereDocument& document = script->documents[static_cast<std::size_t>(only.here_document)];
    std::string text = document.text;
    while (text.ends_with('\n')) text.pop_back();
    if (document.is_quoted) {
      append_words({ShellWord{std::move(text), {}}}, quoted, false, out);
      return {};
    }
    Expansion inner;
    inner.splits = false;
    PLIMSOLL_TRY_STATUS(expand_into(with_plain_quotes(text), depth + 1, inner));
    append_words({inner.taken()}, quoted, false, out);
    return {};
  }
  for (const ShellNode& node : script->body)
    if (node.kind != ShellNode::Kind::kSimple || node.words.empty() || node.here_document >= 0) return give_up();
  const ShellNode& first = only;
  std::vector<ShellWord> words;
  for (const RawWord& raw : first.words) {
    if (raw.is_array) return give_up();
    Expansion inner;
    inner.is_condition = out.is_condition;
    PLIMSOLL_TRY_STATUS(expand_into(raw.text, depth + 1, inner));
    inner.finish();
    for (ShellWord& word : inner.done) {
      if (!word.unknown.empty()) return give_up();
      words.push_back(std::move(word));
    }
  }
  if (words.empty()) return give_up();
  std::erase_if(words, [](const ShellWord& word) { return word.text == "--"; });
  const std::string program = words.front().text;
  const bool has_second = script->body.size() == 2;
  const std::string second = has_second ? script->body[1].words.front().text : "";
  std::string text;
  if (program == "echo" || program == "expr") {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (words[i].text != "-n" && words[i].text != "-e") text += (text.empty() ? "" : " ") + words[i].text;
  } else if (program == "basename" && words.size() >= 2) {
    text = last_part(words[1].text);
    if (words.size() == 3 && text.ends_with(words[2].text)) text.resize(text.size() - words[2].text.size());
  } else if (program == "dirname" && words.size() == 2) {
    text = folder_of(words[1].text);
  } else if ((program == "realpath" || program == "readlink") && words.size() >= 2) {
    text = normal_path(words.back().text);
  } else if (program == "cd" && words.size() == 2 && second == "pwd") {
    append_words({ShellWord{normal_path(words[1].text), {}}}, quoted, false, out);
    return {};
  } else if (program == "pwd" && words.size() <= 2) {
    text = ".";
  } else {
    return give_up();
  }
  if (has_second && !first.is_piped) return give_up();
  if (second == "sed" && script->body[1].words.size() == 2) {
    Expansion inner;
    PLIMSOLL_TRY_STATUS(expand_into(script->body[1].words[1].text, depth + 1, inner));
    inner.finish();
    if (inner.done.size() != 1 || !substitute(inner.done.front().text, text)) return give_up();
  } else if (has_second && second != "bc") {
    return give_up();
  }
  if (second == "bc" || program == "expr") {
    const auto value = evaluate_arithmetic(text);
    if (!value) return give_up();
    text = std::to_string(*value);
  }
  append_words({ShellWord{std::move(text), {}}}, quoted, false, out);
  return {};
}

Status ShellVariables::expand_dollar(std::string_view raw, std::size_t& at, bool quoted, int depth, Expansion& out) {
  if (raw[at] == '`') {
    const std::size_t end = end_of_substitution(raw, at);
    const std::size_t start = at + 1;
    at = end == std::string_view::npos ? raw.size() : end;
    return expand_command(raw.substr(start, at - start - (end == std::string_view::npos ? 0 : 1)), quoted, depth + 1,
                          out);
  }
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (opens_substitution(raw, at)) {
    const std::size_t end = end_of_substitution(raw, at);
    if (end == std::string_view::npos) return bad_input("a ${...} or $(...) is not closed");
    const std::string_view whole = raw.substr(at, end - at);
    at = end;
    if (next == '{') return expand_braces(whole.substr(2, whole.size() - 3), quoted, depth, out);
    if (next == '[') return expand_arithmetic(whole.substr(2, whole.size() - 3), depth, out);
    if (whole.substr(0, 3) == "$((" && whole.size() >= 5)
      return expand_arithmetic(whole.substr(3, whole.size() - 5), depth, out);
    return expand_command(whole.substr(2, whole.size() - 3), quoted, depth + 1, out);
  }
  const std::size_t length = name_length(raw.substr(at + 1));
  if (length > 0) {
    append_variable(raw.substr(at + 1, length), quoted, out);
    at += 1 + length;
    return {};
  }
  if (next != '\0' && std::string_view("@*123456789").find(next) != std::string_view::npos) {
    at += 2;
    return expand_braces(std::string_view(&next, 1), quoted, depth, out);
  }
  if (next == '#' && positional) {
    out.append(std::to_string(positional->size()));
    at += 2;
    return {};
  }
  if (next == '0' && !script_path.empty()) {
    out.append(script_path);
    at += 2;
    return {};
  }
  if (next != '\0' && std::string_view("#?$!-0").find(next) != std::string_view::npos) {
    out.unknown(fmt::format("${} of the script", next));
    at += 2;
    return {};
  }
  out.append("$");
  ++at;
  return {};
}

Status ShellVariables::expand_into(std::string_view raw, int depth, Expansion& out) {
  if (depth > kMaxDepth) return bad_input("variables are nested too deeply");
  bool in_double = false;
  std::size_t spent = out.size;
  for (std::size_t at = 0; at < raw.size();) {
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
      const char escaped = raw[at + 1];
      // Between double quotes a backslash is one, unless it keeps a sign of the shell from acting.
      if (in_double && std::string_view("$`\"\\\n").find(escaped) == std::string_view::npos) out.append("\\");
      if (escaped != '\n') out.append(raw.substr(at + 1, 1));
      at += 2;
    } else if (c == '$' || c == '`') {
      PLIMSOLL_TRY_STATUS(expand_dollar(raw, at, in_double, depth, out));
    } else if (c == kUnknownMark) {
      const std::size_t end = std::min(raw.find(kUnknownMark, at + 1), raw.size() - 1) + 1;
      out.append(raw.substr(at, end - at));
      at = end;
    } else {
      std::size_t end = raw.find_first_of("'\"\\$`\x01", at + 1);
      end = std::min(end, raw.size());
      out.append(raw.substr(at, end - at));
      at = end;
    }
    PLIMSOLL_TRY_STATUS(spend(out.size - spent, 0));
    spent = out.size;
  }
  return {};
}

Result<std::vector<ShellWord>> ShellVariables::expand(std::string_view raw) {
  Expansion out;
  PLIMSOLL_TRY_STATUS(expand_into(raw, 0, out));
  out.finish();
  PLIMSOLL_TRY_STATUS(spend(0, out.done.size()));
  return std::move(out.done);
}

Result<ShellWord> ShellVariables::expand_value(std::string_view raw, bool is_condition) {
  Expansion out;
  out.splits = false;
  out.is_condition = is_condition;
  PLIMSOLL_TRY_STATUS(expand_into(raw, 0, out));
  ShellWord word = out.taken();
  if (!is_condition || word.unknown.empty()) return word;
  // A script that is started without arguments has none.
  const bool only_arguments =
      !positional && std::all_of(word.unknown.begin(), word.unknown.end(), [](const std::string& name) {
        return name.size() > 1 && name[0] == '$' && name[1] >= '1' && name[1] <= '9';
      });
  word.text = without_marks(word.text);
  if (only_arguments) {
    for (const std::string& name : word.unknown)
      if (assumed_unset_.size() < 64) assumed_unset_.insert(name.substr(0, name.find(' ')));
    word.unknown.clear();
  }
  return word;
}

}  // namespace plimsoll::job
