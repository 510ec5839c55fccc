// SPDX-License-Identifier: Apache-2.0
// $((...)) of a shell, on integers: + - * / % and parentheses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::job {

// The value, or nothing for anything but a complete expression without overflow.
[[nodiscard]] std::optional<std::int64_t> evaluate_arithmetic(std::string_view expression);

}  // namespace plimsoll::job
