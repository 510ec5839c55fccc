// SPDX-License-Identifier: Apache-2.0
// Closed sets of choices and their spelling in files. One table per enum serves reading, printing and the "wanted one
// of" part of messages; the functions here read every such table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/text.h"

namespace plimsoll {

// The name is the one that is printed; the aliases are what others write for the same thing.
template <class Enum>
struct Spelling {
  Enum value;
  std::string_view name;
  std::string_view aliases = {};  // separated by spaces
};

// An enum that files can name has its rows beside it: std::span<const Spelling<Enum>> spellings_of(Enum), which is
// found by the type of its argument.
template <class Enum>
concept Spelled = requires(Enum value) { std::span<const Spelling<Enum>>{spellings_of(value)}; };

// Case, '-' and '_' do not matter on reading.
[[nodiscard]] bool is_same_word(std::string_view a, std::string_view b);

template <Spelled Enum>
[[nodiscard]] std::string_view name_of(Enum value) {
  for (const Spelling<Enum>& row : spellings_of(value))
    if (row.value == value) return row.name;
  return "unknown";
}

template <Spelled Enum>
[[nodiscard]] std::optional<Enum> from_name(std::string_view name) {
  if (trim(name).empty()) return std::nullopt;
  for (const Spelling<Enum>& row : spellings_of(Enum{})) {
    if (is_same_word(name, row.name)) return row.value;
    for (const std::string_view alias : split(row.aliases, ' '))
      if (!alias.empty() && is_same_word(name, alias)) return row.value;
  }
  return std::nullopt;
}

// "bf16, fp16, fp32"
template <Spelled Enum>
[[nodiscard]] std::string choices() {
  std::string names;
  for (const Spelling<Enum>& row : spellings_of(Enum{})) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

}  // namespace plimsoll
