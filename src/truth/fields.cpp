// SPDX-License-Identifier: Apache-2.0
#include "truth/fields.h"

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::truth {

using document::Node;

namespace {

const Node* find_path(const Node& record, std::string_view path) {
  const Node* at = &record;
  for (const std::string_view key : split(path, '.')) {
    if (!at->is_object()) return nullptr;
    at = at->find(key);
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool is(const Node& node, Want want) {
  switch (want) {
    case Want::kInteger:
      return node.is_integer();
    case Want::kNumber:
      return node.is_number();
    case Want::kText:
      return node.is_string();
    case Want::kFlag:
      return node.is_bool();
    case Want::kTable:
      return node.is_object();
    case Want::kList:
      return node.is_array();
  }
  return false;
}

std::string_view name_of(Want want) {
  switch (want) {
    case Want::kInteger:
      return "an integer";
    case Want::kNumber:
      return "a number";
    case Want::kText:
      return "a string";
    case Want::kFlag:
      return "true or false";
    case Want::kTable:
      return "an object";
    case Want::kList:
      return "a list";
  }
  return {};
}

}  // namespace

std::string first_problem(const Node& record, std::span<const Field> fields) {
  for (const Field& field : fields) {
    const Node* found = find_path(record, field.path);
    if (found == nullptr || found->is_null()) {
      if (field.required) return fmt::format("{} is missing; wanted {}", field.path, name_of(field.want));
      continue;
    }
    if (!is(*found, field.want))
      return fmt::format("{}: found {}; wanted {}", field.path, kind_name(found->kind), name_of(field.want));
  }
  return {};
}

}  // namespace plimsoll::truth
