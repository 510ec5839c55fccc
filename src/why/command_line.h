// SPDX-License-Identifier: Apache-2.0
// The flags of a command that a log shows: typed above it, echoed by a launcher, or listed where a child has failed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::why {

// Names with underscores ("micro_batch_size") and their values, "true" where a flag has none. Empty where the line is
// no command: advice, a usage text, a rule of dashes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> command_flags(std::string_view text);

}  // namespace plimsoll::why
