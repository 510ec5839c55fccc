// SPDX-License-Identifier: Apache-2.0
#include "rules/value.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::rules {

std::string_view name_of(Type type) {
  switch (type) {
    case Type::kAny:
      return "anything";
    case Type::kBoolean:
      return "boolean";
    case Type::kNumber:
      return "number";
    case Type::kText:
      return "text";
    case Type::kList:
      return "list";
    case Type::kVersion:
      return "version";
  }
  return {};
}

Value version_of(std::string_view text) {
  constexpr int kParts = 3;
  constexpr std::int64_t kMostPerPart = 999;
  std::string_view rest = trim(text);
  if (rest.starts_with('v')) rest.remove_prefix(1);
  std::int64_t version = 0;
  int read = 0;
  for (int part = 0; part < kParts; ++part) {
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const bool is_part = read == part && failure == std::errc{} && number >= 0 && number <= kMostPerPart;
    version = version * (kMostPerPart + 1) + (is_part ? number : 0);
    if (!is_part) continue;
    ++read;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
    } else {
      rest = {};
    }
  }
  return read == 0 ? Value{} : Value::of(version);
}

std::string to_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNone:
      return "none";
    case Value::Kind::kBoolean:
      return value.is_true() ? "true" : "false";
    case Value::Kind::kInteger:
      return fmt::format("{}", value.integer);
    case Value::Kind::kReal:
      return fmt::format("{}", value.real);
    case Value::Kind::kText:
      return std::string(value.view());
    case Value::Kind::kList:
      return fmt::format("[{}]", join(*value.list, ", "));
  }
  return {};
}

}  // namespace plimsoll::rules
