// SPDX-License-Identifier: Apache-2.0
// How many samples a step takes, where a log, a command line or a line of code says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::why {

// Of one device; sizes of evaluation and of the whole job are passed over, and so is advice to change it.
[[nodiscard]] std::optional<std::int64_t> batch_in(std::string_view text);

}  // namespace plimsoll::why
