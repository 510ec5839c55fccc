// SPDX-License-Identifier: Apache-2.0
#include "live/nodes.h"

#include <cmath>

namespace plimsoll::live {

using document::Node;

Node node_of(std::string_view text) {
  Node node;
  node.kind = Node::Kind::kString;
  node.text = text;
  return node;
}

Node node_of(bool flag) {
  Node node;
  node.kind = Node::Kind::kBool;
  node.boolean = flag;
  return node;
}

Node node_of(double number) {
  Node node;
  node.kind = Node::Kind::kReal;
  node.real = number;
  return node;
}

Node node_of_integer(std::int64_t number) {
  Node node;
  node.kind = Node::Kind::kInteger;
  node.integer = number;
  return node;
}

Object::Object() { node_.kind = Node::Kind::kObject; }

Object& Object::add(std::string_view key, Node value) {
  node_.members.emplace_back(std::string(key), std::move(value));
  return *this;
}

std::optional<std::int64_t> integer_in(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  if (found == nullptr || !found->is_integer()) return std::nullopt;
  return found->integer;
}

std::optional<double> real_in(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  if (found == nullptr || !found->is_number() || !std::isfinite(found->as_real())) return std::nullopt;
  return found->as_real();
}

std::string text_in(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_string() ? found->text : std::string{};
}

}  // namespace plimsoll::live
