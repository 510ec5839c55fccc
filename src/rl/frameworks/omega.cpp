// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/omega.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/readers/resolve.h"

namespace plimsoll::rl {

using document::Node;

namespace {

constexpr int kMaxFiles = 8;
constexpr int kMaxDepth = 16;

void lay_over(const Node& top, Node& base) {
  for (const auto& [key, value] : top.members) {
    const auto same = std::find_if(base.members.begin(), base.members.end(),
                                   [&wanted = key](const auto& member) { return member.first == wanted; });
    if (same == base.members.end()) {
      base.members.emplace_back(key, value);
    } else if (same->second.is_object() && value.is_object()) {
      lay_over(value, same->second);
    } else {
      same->second = value;
    }
  }
}

Result<Node> with_defaults(std::string_view text, const std::string& path, int depth) {
  PLIMSOLL_TRY(root, document::parse_yaml(text));
  if (!root.is_object()) return root;
  const Node* defaults = root.find("defaults");
  if (defaults == nullptr) return root;
  if (depth > kMaxFiles) return bad_input("defaults: files name each other in a circle");
  std::vector<std::string> names;
  if (defaults->is_string()) names.push_back(defaults->text);
  for (const Node& item : defaults->items)
    if (item.is_string() && item.text != "_self_") names.push_back(item.text);
  Node base;
  base.kind = Node::Kind::kObject;
  for (std::string name : names) {
    if (name.find(".y") == std::string::npos) name += ".yaml";
    PLIMSOLL_TRY(found, job::locate(name, parent_folder(path)));
    PLIMSOLL_TRY(inner_text, job::read_named_file(found));
    auto inner = with_defaults(inner_text, found, depth + 1);
    if (!inner) return tl::make_unexpected(std::move(inner.error()).with_context(found));
    lay_over(*inner, base);
  }
  lay_over(root, base);
  std::erase_if(base.members, [](const auto& member) { return member.first == "defaults"; });
  return base;
}

const Node* at(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (const std::string_view part : split(path, '.')) {
    node = node->is_object() ? node->find(part) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node;
}

// "${a.b.c}" alone in a value.
void interpolate(const Node& root, Node& node, int depth) {
  if (depth > kMaxDepth) return;
  for (auto& member : node.members) interpolate(root, member.second, depth + 1);
  for (Node& item : node.items) interpolate(root, item, depth + 1);
  for (int step = 0; step < kMaxFiles; ++step) {
    if (!node.is_string() || !node.text.starts_with("${") || !node.text.ends_with("}")) return;
    const std::string_view inside(node.text.data() + 2, node.text.size() - 3);
    if (inside.find_first_of("${}:") != std::string_view::npos) return;
    const Node* target = at(root, inside);
    if (target == nullptr || target->is_object() || target->is_array()) return;
    const Node value = *target;
    node = value;
  }
}

}  // namespace

Result<Node> parse_omega(std::string_view text, const std::string& path) {
  PLIMSOLL_TRY(root, with_defaults(text, path, 0));
  const Node before = root;
  interpolate(before, root, 0);
  return root;
}

}  // namespace plimsoll::rl
