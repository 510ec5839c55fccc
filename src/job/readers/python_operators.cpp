// SPDX-License-Identifier: Apache-2.0
#include "job/readers/python_operators.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/text.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using Value = std::optional<Node>;

constexpr std::int64_t kMostValues = 10'000;   // of a list that is repeated
constexpr std::size_t kLongestText = 1 << 16;  // that strings are joined to
constexpr double kExact = 9007199254740992;    // 2^53: larger ones are no whole numbers any more

Value finite(double value) { return std::isfinite(value) ? Value(real_node(value)) : std::nullopt; }

Value whole_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 62) return std::nullopt;
  std::int64_t product = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    const auto next = checked_mul(product, base);
    if (!next) return std::nullopt;
    product = *next;
  }
  return integer_node(product);
}

Value integers(std::int64_t a, std::string_view sign, std::int64_t b) {
  std::optional<std::int64_t> result;
  if (sign == "+") result = checked_add(a, b);
  if (sign == "-" && b != INT64_MIN) result = checked_add(a, -b);
  if (sign == "*") result = checked_mul(a, b);
  if (sign == "/") return b == 0 ? std::nullopt : finite(static_cast<double>(a) / static_cast<double>(b));
  if (sign == "**") return whole_power(a, b);
  if ((sign == "//" || sign == "%") && b > 0) {
    const std::int64_t rest = ((a % b) + b) % b;  // Python rounds down
    result = sign == "%" ? rest : (a - rest) / b;
  }
  return result ? Value(integer_node(*result)) : std::nullopt;
}

Value reals(double a, std::string_view sign, double b) {
  if (sign == "+") return finite(a + b);
  if (sign == "-") return finite(a - b);
  if (sign == "*") return finite(a * b);
  if (sign == "**") return finite(std::pow(a, b));
  if (b == 0) return std::nullopt;
  if (sign == "/") return finite(a / b);
  if (sign == "//") return finite(std::floor(a / b));
  return std::nullopt;
}

Value to_whole(const Node& value) {
  if (value.is_integer()) return value;
  if (value.is_bool()) return integer_node(value.boolean ? 1 : 0);
  if (value.is_number() && std::fabs(value.real) < kExact) return integer_node(static_cast<std::int64_t>(value.real));
  if (value.is_string())
    if (const Node parsed = document::parse_scalar(value.text); parsed.is_integer()) return parsed;
  return std::nullopt;
}

}  // namespace

std::int64_t count_values(const Node& node) {
  std::int64_t count = 1;
  for (const Node& item : node.items) count += count_values(item);
  for (const auto& member : node.members) count += count_values(member.second);
  return count;
}

Value python_arithmetic(const Node& left, std::string_view sign, const Node& right) {
  if (left.is_integer() && right.is_integer()) return integers(left.integer, sign, right.integer);
  if (left.is_number() && right.is_number()) return reals(left.as_real(), sign, right.as_real());
  if (sign == "+" && left.is_string() && right.is_string() && left.text.size() + right.text.size() < kLongestText)
    return text_node(left.text + right.text);
  if (sign == "+" && left.is_array() && right.is_array()) {
    Node both = left;
    both.items.insert(both.items.end(), right.items.begin(), right.items.end());
    return both;
  }
  if (sign == "*" && left.is_array() && right.is_integer() && right.integer >= 0 && right.integer <= kMostValues &&
      count_values(left) * right.integer <= kMostValues) {
    Node many;
    many.kind = Node::Kind::kArray;
    for (std::int64_t i = 0; i < right.integer; ++i)
      many.items.insert(many.items.end(), left.items.begin(), left.items.end());
    return many;
  }
  return std::nullopt;
}

Value python_compare(const Node& left, std::string_view sign, const Node& right) {
  if (left.is_number() && right.is_number()) {
    const double a = left.as_real();
    const double b = right.as_real();
    if (sign == "==") return bool_node(a == b);
    if (sign == "!=") return bool_node(a != b);
    return bool_node(sign == "<" ? a < b : sign == "<=" ? a <= b : sign == ">" ? a > b : a >= b);
  }
  const bool is_plain = left.kind == right.kind && (left.is_string() || left.is_bool() || left.is_null());
  if ((sign != "==" && sign != "!=") || !is_plain) return std::nullopt;
  return bool_node((left.text == right.text && left.boolean == right.boolean) == (sign == "=="));
}

Value python_builtin(std::string_view name, const std::vector<Node>& arguments) {
  if (arguments.empty()) return std::nullopt;
  const Node& first = arguments.front();
  if (arguments.size() == 1) {
    if (name == "int" || name == "round") return to_whole(first);
    if (name == "float" && first.is_number()) return real_node(first.as_real());
    if (name == "str" && !first.is_object() && !first.is_array()) return text_node(document::to_text(first));
    if (name == "len" && first.is_array()) return integer_node(static_cast<std::int64_t>(first.items.size()));
    if ((name == "tuple" || name == "list") && first.is_array()) return first;
    if (name == "bool")
      if (const auto truth = python_truth(first)) return bool_node(*truth);
    return std::nullopt;
  }
  if (name != "min" && name != "max") return std::nullopt;
  if (!std::all_of(arguments.begin(), arguments.end(), [](const Node& one) { return one.is_number(); }))
    return std::nullopt;
  const auto less = [](const Node& a, const Node& b) { return a.as_real() < b.as_real(); };
  return name == "min" ? *std::min_element(arguments.begin(), arguments.end(), less)
                       : *std::max_element(arguments.begin(), arguments.end(), less);
}

std::optional<PythonString> python_string(std::string_view text) {
  std::size_t at = 0;
  bool is_raw = false;
  PythonString string;
  while (at < text.size() && at < 2 && std::string_view("rRbBuUfF").find(text[at]) != std::string_view::npos) {
    is_raw = is_raw || text[at] == 'r' || text[at] == 'R';
    string.is_formatted = string.is_formatted || text[at] == 'f' || text[at] == 'F';
    ++at;
  }
  if (at >= text.size() || (text[at] != '"' && text[at] != '\'')) return std::nullopt;
  const bool is_long = text.substr(at, 3) == std::string(3, text[at]);
  const std::string_view quote = text.substr(at, is_long ? 3 : 1);
  at += quote.size();
  while (at < text.size() && text.substr(at, quote.size()) != quote) {
    if (text[at] == '\n' && !is_long) return std::nullopt;
    if (text[at] == '\\' && at + 1 < text.size() && !is_raw) {
      const char next = text[at + 1];
      if (next == 'n') string.text += '\n';
      if (next == 't') string.text += '\t';
      if (next != 'n' && next != 't' && next != '\n') string.text += next;
      at += 2;
      continue;
    }
    string.text += text[at++];
  }
  if (at >= text.size()) return std::nullopt;
  string.length = at + quote.size();
  return string;
}

std::optional<std::string> python_format(std::string_view text, const PythonNames& names) {
  std::string whole;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' && at + 1 < text.size() && text[at + 1] != '{') {
      const std::size_t end = text.find('}', at);
      if (end == std::string_view::npos) return std::nullopt;
      const auto found = names.find(trim(text.substr(at + 1, end - at - 1)));
      if (found == names.end() || found->second.is_object() || found->second.is_array()) return std::nullopt;
      whole += document::to_text(found->second);
      if (whole.size() > kLongestText) return std::nullopt;
      at = end;
      continue;
    }
    if ((text[at] == '{' || text[at] == '}') && at + 1 < text.size() && text[at + 1] == text[at]) ++at;
    whole += text[at];
  }
  return whole;
}

}  // namespace plimsoll::job
