// SPDX-License-Identifier: Apache-2.0
#include "model/fields.h"

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::model {

namespace {

using document::Node;

const Node* walk(const Node& table, std::string_view path) {
  const Node* at = &table;
  for (const std::string_view step : split(path, '.')) {
    if (!at->is_object()) return nullptr;
    at = at->find(step);
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool is_absent(const Node* node) { return node == nullptr || node->is_null(); }

std::string spelled(std::string_view key) {
  const std::vector<std::string_view> names = split(key, '|');
  std::string text{names.front()};
  for (std::size_t i = 1; i < names.size(); ++i) text += fmt::format(" or {}", names[i]);
  return text;
}

// A value in a message; a long one is cut, since it came from a file of any size.
std::string shown(const Node& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.items.size());
  const std::string text = document::to_text(value);
  const std::string cut = text.size() > 40 ? text.substr(0, 40) + "..." : text;
  return value.is_string() ? fmt::format("'{}'", cut) : cut;
}

}  // namespace

bool Fields::is_null(std::string_view key) const {
  const Node* node = walk(*table_, key);
  return node != nullptr && node->is_null();
}

bool Fields::is_list(std::string_view key) const {
  const Node* node = walk(*table_, key);
  return node != nullptr && node->is_array();
}

const Node* Fields::find(std::string_view key) {
  const Node* found = nullptr;
  std::string_view found_name;
  for (const std::string_view name : split(key, '|')) {
    const Node* node = walk(*table_, name);
    if (is_absent(node)) continue;
    if (found != nullptr && document::to_text(*found) != document::to_text(*node))
      fail(fmt::format("{} is {} but {} is {}; both mean the same", found_name, shown(*found), name, shown(*node)),
           fmt::format("remove one of {} and {}", found_name, name));
    if (found != nullptr) continue;
    found = node;
    found_name = name;
  }
  return found;
}

std::optional<std::int64_t> Fields::bounded(std::string_view key, const Node& value, std::int64_t least,
                                            std::int64_t limit) {
  if (value.is_integer() && value.integer >= least && value.integer <= limit) return value.integer;
  fail(fmt::format("{} is {}; wanted an integer from {} to {}", spelled(key), shown(value), least, limit));
  return std::nullopt;
}

std::int64_t Fields::size(std::string_view key, std::int64_t limit, std::int64_t least) {
  const Node* node = find(key);
  if (node == nullptr) {
    fail(fmt::format("the key {} is missing", spelled(key)));
    return least;
  }
  return bounded(key, *node, least, limit).value_or(least);
}

std::int64_t Fields::size_or(std::string_view key, std::int64_t limit, std::int64_t fallback, std::int64_t least) {
  const Node* node = find(key);
  return node == nullptr ? fallback : bounded(key, *node, least, limit).value_or(fallback);
}

bool Fields::flag(std::string_view key, bool fallback) {
  const Node* node = find(key);
  if (node == nullptr) return fallback;
  if (!node->is_bool()) fail(fmt::format("{} is {}; wanted true or false", spelled(key), shown(*node)));
  return node->is_bool() ? node->boolean : fallback;
}

bool Fields::flag_here_or_outside(std::string_view key, bool fallback) {
  if (outer_ == nullptr || has(key)) return flag(key, fallback);
  const Node* node = walk(*outer_, key);
  if (is_absent(node)) return fallback;
  if (!node->is_bool()) fail(fmt::format("{} is {}; wanted true or false", key, shown(*node)));
  return node->is_bool() ? node->boolean : fallback;
}

double Fields::probability(std::string_view key, double fallback) {
  const Node* node = find(key);
  if (node == nullptr) return fallback;
  const double value = node->as_real();
  if (node->is_number() && value >= 0 && value < 1) return value;
  fail(fmt::format("{} is {}; wanted a probability of at least 0 and below 1", spelled(key), shown(*node)));
  return fallback;
}

std::string Fields::text(std::string_view key, std::string_view fallback) {
  const Node* node = find(key);
  if (node == nullptr) return std::string{fallback};
  if (!node->is_string()) fail(fmt::format("{} is {}; wanted a string", spelled(key), shown(*node)));
  return node->is_string() ? node->text : std::string{fallback};
}

std::optional<std::vector<std::int64_t>> Fields::integers(std::string_view key, std::int64_t limit) {
  const Node* node = find(key);
  if (node == nullptr) return std::nullopt;
  std::vector<std::int64_t> values;
  if (!node->is_array()) fail(fmt::format("{} is {}; wanted a list of integers", spelled(key), shown(*node)));
  for (const Node& item : node->items) {
    const std::optional<std::int64_t> value = bounded(key, item, 0, limit);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key) {
  const Node* node = find(key);
  if (node == nullptr) return std::nullopt;
  std::vector<std::string> values;
  if (!node->is_array()) fail(fmt::format("{} is {}; wanted a list of strings", spelled(key), shown(*node)));
  for (const Node& item : node->items) {
    if (!item.is_string()) {
      fail(fmt::format("{} holds {}; wanted strings", spelled(key), shown(item)));
      return std::nullopt;
    }
    values.push_back(item.text);
  }
  return values;
}

void Fields::fail(std::string message, std::string hint) {
  if (!error_) error_ = Error{Code::kBadInput, std::move(message), {}, std::move(hint)};
}

Status Fields::status() const {
  if (error_) return tl::make_unexpected(*error_);
  return {};
}

}  // namespace plimsoll::model
