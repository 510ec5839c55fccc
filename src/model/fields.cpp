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

bool Fields::is_text(std::string_view key) const {
  const Node* node = walk(*table_, key);
  return node != nullptr && node->is_string();
}

bool Fields::is_list(std::string_view key) const {
  const Node* node = walk(*table_, key);
  return node != nullptr && node->is_array();
}

// A null in the file is an answer of its own: the class default does not stand in for it.
Fields::Found Fields::find(std::string_view key) {
  Found found = find_in_file(key);
  if (found.value != nullptr || defaults_ == nullptr) return found;
  const std::vector<std::string_view> names = split(key, '|');
  for (const std::string_view name : names)
    if (is_null(name)) return found;
  for (const std::string_view name : names) {
    const Node* node = walk(*defaults_, name);
    if (!is_absent(node)) return {node, name, true};
  }
  return found;
}

Fields::Found Fields::find_in_file(std::string_view key) {
  Found found;
  for (const std::string_view name : split(key, '|')) {
    const Node* node = walk(*table_, name);
    if (is_absent(node)) continue;
    if (found.value == nullptr) {
      found = {node, name};
    } else if (document::to_text(*found.value) != document::to_text(*node)) {
      fail(
          fmt::format("{} is {} but {} is {}; both mean the same", found.name, shown(*found.value), name, shown(*node)),
          fmt::format("remove one of {} and {}", found.name, name));
    }
  }
  return found;
}

void Fields::fail_kind(const Found& found, std::string_view wanted) {
  fail(fmt::format("{} is {}; wanted {}", found.name, shown(*found.value), wanted));
}

std::optional<std::int64_t> Fields::bounded(std::string_view name, const Node& value, std::int64_t least,
                                            std::int64_t limit) {
  if (value.is_integer() && value.integer >= least && value.integer <= limit) return value.integer;
  fail(fmt::format("{} is {}; wanted an integer from {} to {}", name, shown(value), least, limit));
  return std::nullopt;
}

std::int64_t Fields::size(std::string_view key, std::int64_t limit, std::int64_t least) {
  const Found found = find(key);
  if (found.value != nullptr) {
    if (found.is_default) assumed_.push_back(fmt::format("{} {}", found.name, shown(*found.value)));
    return bounded(found.name, *found.value, least, limit).value_or(least);
  }
  fail(fmt::format("the key {} is missing", spelled(key)));
  return least;
}

std::int64_t Fields::size_or(std::string_view key, std::int64_t limit, std::int64_t fallback, std::int64_t least) {
  const Found found = find(key);
  return found.value == nullptr ? fallback : bounded(found.name, *found.value, least, limit).value_or(fallback);
}

bool Fields::flag_of(const Found& found, bool fallback) {
  if (found.value == nullptr) return fallback;
  if (found.value->is_bool()) return found.value->boolean;
  fail_kind(found, "true or false");
  return fallback;
}

bool Fields::flag(std::string_view key, bool fallback) { return flag_of(find(key), fallback); }

bool Fields::flag_here_or_outside(std::string_view key, bool fallback) {
  if (outer_ == nullptr || find_in_file(key).value != nullptr) return flag(key, fallback);
  const Node* node = walk(*outer_, key);
  return is_absent(node) ? flag(key, fallback) : flag_of({node, key}, fallback);
}

double Fields::probability(std::string_view key, double fallback) {
  const Found found = find(key);
  if (found.value == nullptr) return fallback;
  const double value = found.value->as_real();
  if (found.value->is_number() && value >= 0 && value < 1) return value;
  fail_kind(found, "a probability of at least 0 and below 1");
  return fallback;
}

double Fields::positive_or(std::string_view key, double limit, double fallback) {
  Found first;
  for (const std::string_view name : split(key, '|')) {
    const Node* node = walk(*table_, name);
    if (is_absent(node)) continue;
    const Found found{node, name};
    if (!node->is_number() || !(node->as_real() > 0) || node->as_real() > limit) {
      fail_kind(found, fmt::format("a number above 0 and up to {}", limit));
      return fallback;
    }
    if (first.value == nullptr) first = found;
    if (first.value->as_real() != node->as_real()) {
      fail(
          fmt::format("{} is {} but {} is {}; both mean the same", first.name, shown(*first.value), name, shown(*node)),
          fmt::format("remove one of {} and {}", first.name, name));
      return fallback;
    }
  }
  return first.value == nullptr ? fallback : first.value->as_real();
}

std::string Fields::text(std::string_view key, std::string_view fallback) {
  const Found found = find(key);
  if (found.value == nullptr) return std::string{fallback};
  if (found.value->is_string()) return found.value->text;
  fail_kind(found, "a string");
  return std::string{fallback};
}

std::optional<std::vector<std::int64_t>> Fields::integers(std::string_view key, std::int64_t limit) {
  const Found found = find(key);
  if (found.value == nullptr) return std::nullopt;
  if (!found.value->is_array()) {
    fail_kind(found, "a list of integers");
    return std::nullopt;
  }
  std::vector<std::int64_t> values;
  for (const Node& item : found.value->items) {
    const std::optional<std::int64_t> value = bounded(found.name, item, 0, limit);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::vector<double>> Fields::shares(std::string_view key) {
  const Found found = find(key);
  if (found.value == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const Node& item : found.value->items) {
    if (!item.is_number() || !(item.as_real() >= 0 && item.as_real() < 1)) break;
    values.push_back(item.as_real());
  }
  if (found.value->is_array() && values.size() == found.value->items.size()) return values;
  fail_kind(found, "a list of numbers from 0 up to 1");
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key) {
  const Found found = find(key);
  if (found.value == nullptr) return std::nullopt;
  std::vector<std::string> values;
  for (const Node& item : found.value->items) {
    if (!item.is_string()) break;
    values.push_back(item.text);
  }
  if (found.value->is_array() && values.size() == found.value->items.size()) return values;
  fail_kind(found, "a list of strings");
  return std::nullopt;
}

void Fields::fail(std::string message, std::string hint) {
  if (!error_) error_ = Error{Code::kBadInput, std::move(message), {}, std::move(hint)};
}

Status Fields::status() const {
  if (error_) return tl::make_unexpected(*error_);
  return {};
}

}  // namespace plimsoll::model
