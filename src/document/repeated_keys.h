// SPDX-License-Identifier: Apache-2.0
// Keys that a YAML file has twice in one table. parse_yaml() keeps the last value, as the loaders of the frameworks do
// (PyYAML, OmegaConf over it); whoever reads a file for a user says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::document {

// A table is searched once per repetition; a longer text with a repeated key is an error.
inline constexpr std::size_t kLongestWithRepeats = 1U << 18;

struct RepeatedKey {
  std::string key;
  int line = 0;  // of the later one, whose value counts
};

// None where the text is no YAML.
[[nodiscard]] std::vector<RepeatedKey> repeated_yaml_keys(std::string_view text);

}  // namespace plimsoll::document
