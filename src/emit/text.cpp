// SPDX-License-Identifier: Apache-2.0
#include "emit/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "job/keys.h"

namespace plimsoll::emit {

using document::Node;

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("-+./:,=@%").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

bool is_variable_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string quoted(std::string_view text) {
  std::string word = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      word += '\\';
      word += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      word += fmt::format("\\u{:04x}", byte);
    } else {
      word += c;
    }
  }
  return word + "\"";
}

std::string value_text(const Node& value, std::string_view assign) {
  std::string text;
  switch (value.kind) {
    case Node::Kind::kString:
      return quoted(value.text);
    case Node::Kind::kArray:
      for (const Node& item : value.items) text += (text.empty() ? "" : ", ") + value_text(item, assign);
      return "[" + text + "]";
    case Node::Kind::kObject:
      for (const auto& [name, item] : value.members)
        text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", quoted(name), assign, value_text(item, assign));
      return "{" + text + "}";
    default:
      return document::to_text(value);
  }
}

std::string pretty_json(const Node& value, int depth) {
  if (!value.is_object() || value.members.empty()) return value_text(value);
  const std::string indent(static_cast<std::size_t>(depth + 1) * 2, ' ');
  std::string text = "{\n";
  for (std::size_t i = 0; i < value.members.size(); ++i)
    text += fmt::format("{}{}: {}{}\n", indent, quoted(value.members[i].first),
                        pretty_json(value.members[i].second, depth + 1), i + 1 < value.members.size() ? "," : "");
  return text + indent.substr(2) + "}";
}

std::string comment(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  std::string line;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte >= 0x7f ? ' ' : c;
  }
  return line;
}

std::string with_comments(const std::vector<Line>& lines, std::string_view indent) {
  constexpr std::size_t kWidest = 60;  // a longer line does not push the others' comments away
  std::size_t width = 0;
  for (const Line& line : lines)
    if (line.text.size() <= kWidest) width = std::max(width, line.text.size());
  std::string text;
  for (const Line& line : lines)
    text += line.why.empty()    ? fmt::format("{}{}\n", indent, line.text)
            : line.text.empty() ? fmt::format("{}# {}\n", indent, comment(line.why))
                                : fmt::format("{}{:<{}}  # {}\n", indent, line.text, width, comment(line.why));
  return text;
}

std::string why(std::string_view key, const std::vector<Reason>& reasons) {
  for (const Reason& reason : reasons)
    if (reason.key == key) return reason.text;
  for (const job::KeyInfo& info : job::key_table())
    if (info.name == key) return info.doc;
  return std::string(key);
}

std::string why_value(std::string_view key, const Node& value, const std::vector<Reason>& reasons) {
  const std::string text = why(key, reasons);
  const bool has_reason =
      std::any_of(reasons.begin(), reasons.end(), [key](const Reason& reason) { return reason.key == key; });
  if (has_reason) return text;
  if (key == "recompute_granularity" && (value.is_null() || value.text == "none"))
    return "nothing is recomputed in backward";
  if (key == "virtual_pipeline_model_parallel_size" && (value.is_null() || value.integer == 1))
    return "one model chunk per pipeline rank";
  const bool is_key = std::any_of(job::key_table().begin(), job::key_table().end(),
                                  [key](const job::KeyInfo& info) { return info.name == key; });
  const bool is_off = value.is_null() || (value.is_bool() && !value.boolean);
  return is_key && is_off ? "off: " + text : text;
}

Node object_node() {
  Node node;
  node.kind = Node::Kind::kObject;
  return node;
}

void put(Node& table, std::string_view name, Node value) {
  table.kind = Node::Kind::kObject;
  for (auto& [key, old] : table.members) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  table.members.emplace_back(std::string(name), std::move(value));
}

}  // namespace plimsoll::emit
