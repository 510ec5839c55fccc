// SPDX-License-Identifier: Apache-2.0
// Values may be hostile (a model's name, a path): what is written is data in its format, never syntax.
#include <algorithm>
#include <cctype>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"
#include "rl/frameworks/items.h"

namespace plimsoll::rl {

namespace {

using document::Node;

// JSON, TOML and YAML share the spelling of scalars; text is always quoted.
std::string scalar(const Node& value) { return document::to_json(value); }

// One word of a POSIX shell.
std::string shell_word(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view{"-_./:@%+,"}.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string{text};
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

// Python's spelling, as Hydra prints it.
std::string hydra_text(const Node& value) {
  if (value.is_bool()) return value.boolean ? "True" : "False";
  return document::to_text(value);
}

std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return result;
}

// "text  # why", the comments of a block in one column.
std::string with_comments(const std::vector<std::pair<std::string, std::string>>& lines) {
  constexpr std::size_t kWidestColumn = 64;
  std::size_t column = 0;
  for (const auto& [text, why] : lines)
    if (!why.empty() && text.size() <= kWidestColumn) column = std::max(column, text.size());
  std::string result;
  for (const auto& [text, why] : lines) {
    result += text;
    if (!why.empty()) {
      if (text.size() < column) result.append(column - text.size(), ' ');
      result += "  # " + one_line(why);
    }
    result += '\n';
  }
  return result;
}

std::string comment_block(const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& comment : comments) text += "# " + one_line(comment) + "\n";
  return text;
}

struct Tree {
  std::string name;
  const Item* leaf = nullptr;
  std::vector<std::unique_ptr<Tree>> children;

  Tree& child(std::string_view wanted) {
    for (const auto& one : children)
      if (one->name == wanted) return *one;
    children.push_back(std::make_unique<Tree>());
    children.back()->name = wanted;
    return *children.back();
  }
};

void add_yaml(const Tree& tree, int depth, std::vector<std::pair<std::string, std::string>>& lines) {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (const auto& child : tree.children) {
    if (child->leaf != nullptr)
      lines.emplace_back(fmt::format("{}{}: {}", indent, child->name, scalar(child->leaf->value)), child->leaf->why);
    else
      lines.emplace_back(fmt::format("{}{}:", indent, child->name), "");
    add_yaml(*child, depth + 1, lines);
  }
}

}  // namespace

std::string yaml_text(const std::vector<Item>& items, const std::vector<std::string>& comments) {
  Tree root;
  for (const Item& item : items) {
    Tree* at = &root;
    for (const std::string_view part : split(item.path, '.')) at = &at->child(part);
    at->leaf = &item;
  }
  std::vector<std::pair<std::string, std::string>> lines;
  add_yaml(root, 0, lines);
  return with_comments(lines) + comment_block(comments);
}

std::string toml_text(const std::vector<Item>& items, const std::vector<std::string>& comments) {
  std::vector<std::string> tables;
  const auto table_of = [](const Item& item) {
    const std::size_t dot = item.path.rfind('.');
    return dot == std::string::npos ? std::string{} : item.path.substr(0, dot);
  };
  for (const Item& item : items)
    if (std::find(tables.begin(), tables.end(), table_of(item)) == tables.end()) tables.push_back(table_of(item));
  // Keys of no table come first in TOML.
  std::stable_sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) { return a.empty() && !b.empty(); });
  std::vector<std::pair<std::string, std::string>> lines;
  for (const std::string& table : tables) {
    if (!table.empty()) {
      if (!lines.empty()) lines.emplace_back("", "");
      lines.emplace_back("[" + table + "]", "");
    }
    for (const Item& item : items) {
      if (table_of(item) != table) continue;
      const std::string name = table.empty() ? item.path : item.path.substr(table.size() + 1);
      lines.emplace_back(fmt::format("{} = {}", name, scalar(item.value)), item.why);
    }
  }
  return with_comments(lines) + comment_block(comments);
}

std::string shell_text(const std::vector<Item>& items, const std::vector<std::string>& comments,
                       std::string_view command, bool flags) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Item& item : items) {
    if (!flags) {
      lines.emplace_back(fmt::format("  {}", shell_word(item.path) + "=" + shell_word(hydra_text(item.value))),
                         item.why);
    } else if (!item.value.is_bool()) {
      lines.emplace_back(fmt::format("  --{} {}", item.path, shell_word(document::to_text(item.value))), item.why);
    } else if (item.value.boolean) {
      lines.emplace_back(fmt::format("  --{}", item.path), item.why);
    }
  }
  return fmt::format("#!/usr/bin/env bash\nset -euo pipefail\n\nsettings=(\n{})\n{}\n{} \"${{settings[@]}}\" \"$@\"\n",
                     with_comments(lines), comment_block(comments), command);
}

}  // namespace plimsoll::rl
