// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/items.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "job/value.h"
#include "model/catalog.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

using document::Node;

namespace {

// The repository that a framework downloads: the first alias with an owner of a model of the catalogue, else the name
// as it stands.
std::string hub_name(std::string_view name) {
  for (const model::CatalogEntry& entry : model::catalog_entries()) {
    if (!equals_ignoring_case(entry.name, name)) continue;
    for (const std::string& alias : entry.aliases)
      if (alias.find('/') != std::string::npos) return alias;
  }
  return std::string{name};
}

}  // namespace

Items::Items(const Run& run) : settings_(settings_of(run)) {}

void Items::add(std::string path, Node value, std::string key, std::string why) {
  items_.push_back({std::move(path), std::move(value), std::move(key), std::move(why)});
}

void Items::add_word(std::string path, std::string_view word, std::string key, std::string why) {
  add(std::move(path), job::text_node(std::string{word}), std::move(key), std::move(why));
}

void Items::add_number(std::string path, std::int64_t number, std::string key, std::string why) {
  Node node;
  node.kind = Node::Kind::kInteger;
  node.integer = number;
  add(std::move(path), std::move(node), std::move(key), std::move(why));
}

void Items::add_flag(std::string path, bool flag, std::string key, std::string why) {
  Node node;
  node.kind = Node::Kind::kBool;
  node.boolean = flag;
  add(std::move(path), std::move(node), std::move(key), std::move(why));
}

void Items::add_setting(std::string path, const std::string& key) {
  const std::string_view value = setting(settings_, key);
  if (value.empty() || value == "null") return;
  if (key == "model")
    add_word(std::move(path), hub_name(value), key, "the model");
  else
    add(std::move(path), document::parse_scalar(value), key);
}

void Values::put(std::string path, Node value) { values_.insert_or_assign(std::move(path), std::move(value)); }

void Values::put_unknown(std::string path, std::string variable) {
  values_.erase(path);
  unknown_.insert_or_assign(std::move(path), std::move(variable));
}

void Values::rename_section(std::string_view from, std::string_view to) {
  const std::string start = std::string(from) + ".";
  const auto rename = [&](auto& table) {
    for (auto it = table.lower_bound(start); it != table.end() && it->first.starts_with(start);) {
      auto node = table.extract(it++);
      node.key() = std::string(to) + "." + node.key().substr(start.size());
      table.insert(std::move(node));
    }
  };
  rename(values_);
  rename(unknown_);
}

bool Values::has_section(std::string_view section) const {
  const std::string start = std::string{section} + ".";
  const auto found = values_.lower_bound(start);
  return found != values_.end() && found->first.starts_with(start);
}

const Node* Values::look(std::string_view path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? nullptr : &found->second;
}

const Node* Values::take(std::string_view path) {
  asked_.emplace(path);
  const auto found = values_.find(path);
  if (found == values_.end()) return nullptr;
  taken_.insert(found->first);
  return &found->second;
}

std::optional<std::int64_t> Values::take_integer(std::string_view path) {
  const Node* node = take(path);
  if (node == nullptr || !node->is_integer()) return std::nullopt;
  return node->integer;
}

std::optional<bool> Values::take_flag(std::string_view path) {
  const Node* node = take(path);
  if (node == nullptr) return std::nullopt;
  if (node->is_bool()) return node->boolean;
  if (node->is_string() && equals_ignoring_case(node->text, "true")) return true;
  if (node->is_string() && equals_ignoring_case(node->text, "false")) return false;
  return std::nullopt;
}

std::string Values::take_word(std::string_view path) {
  const Node* node = take(path);
  return node == nullptr || node->is_null() ? std::string{} : document::to_text(*node);
}

std::vector<std::string> Values::left_over() const {
  std::vector<std::string> paths;
  for (const auto& [path, value] : values_)
    if (taken_.find(path) == taken_.end()) paths.push_back(path);
  return paths;
}

Result<Nodes> nodes_of(std::int64_t gpus, std::int64_t gpus_per_node, std::string_view key) {
  const std::int64_t nodes = ceil_div(gpus, std::max<std::int64_t>(1, gpus_per_node));
  if (nodes > 0 && gpus % nodes == 0) return Nodes{nodes, gpus / nodes};
  return bad_input(fmt::format("{} {} does not fill nodes of {} GPUs evenly", key, gpus, gpus_per_node),
                   "the framework counts nodes and GPUs per node");
}

Result<std::int64_t> per_minibatch(std::int64_t total, std::int64_t minibatches) {
  if (minibatches > 0 && total % minibatches == 0) return total / minibatches;
  return bad_input(fmt::format("number_of_minibatches {} does not divide a batch of {}", minibatches, total),
                   "the framework counts the size of a minibatch");
}

void add_trainer_names(const Run& run, std::span<const TrainerName> names, Items& items) {
  for (const TrainerName& name : names)
    for (const auto& [key, value] : run.trainer_keys)
      if (key == name.key) items.add(std::string{name.path}, document::parse_scalar(value), key);
}

void take_trainer_names(Values& values, std::span<const TrainerName> names, Settings& settings) {
  for (const TrainerName& name : names)
    if (const std::string word = values.take_word(name.path); !word.empty()) put_setting(settings, name.key, word);
}

}  // namespace plimsoll::rl
