// SPDX-License-Identifier: Apache-2.0
// What a mistyped value was meant to be, where the values are a list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// The values of a list as tables write it: "none, cpu, nvme", "list of core_attn, mlp", "auto,always,never". Entries of
// several words ("Bridge's long names") are no values; a text without a comma is no list.
[[nodiscard]] std::vector<std::string> listed_values(std::string_view list);

// "did you mean cpu?", or "" where none is near. `before` is written in front of the value: "--".
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& values,
                                       std::string_view before = {});
[[nodiscard]] std::string did_you_mean(std::string_view word, std::string_view list);

}  // namespace plimsoll
