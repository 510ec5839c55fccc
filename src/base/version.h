// SPDX-License-Identifier: Apache-2.0
// A release of a program as far as behaviour depends on it: its first two numbers.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

namespace plimsoll {

struct Version {
  int major = 0;
  int minor = 0;

  auto operator<=>(const Version&) const = default;
};

// "2.6", "2.11.0+cu130", "2.12.0a0+abc"; nothing for another form.
[[nodiscard]] std::optional<Version> leading_version(std::string_view text);

}  // namespace plimsoll
