// SPDX-License-Identifier: Apache-2.0
// Environment variables that say something of a job: its memory, its messages, its kernels. A job may have others.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll::job {

struct KnownVariable {
  std::string_view name;
  std::string_view why;
};
[[nodiscard]] std::span<const KnownVariable> known_variables();

// The one that a mistyped name was meant to be; "" for one that is known, and for one that is none of them.
[[nodiscard]] std::string meant_variable(std::string_view name);

}  // namespace plimsoll::job
