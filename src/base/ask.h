// SPDX-License-Identifier: Apache-2.0
// What another program says: its first output, within a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// Standard output of the command, at most 64 KiB; nothing where it cannot be started, fails, or takes longer: it is
// ended then.
[[nodiscard]] std::optional<std::string> ask(const std::vector<std::string>& words, std::chrono::milliseconds most);

}  // namespace plimsoll
