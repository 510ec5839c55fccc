// SPDX-License-Identifier: Apache-2.0
// Some lines of a log, plain or compressed, by their numbers. A log is never held as a whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace plimsoll::serve {

// Lines `first` to `first + count - 1`, counted from 1, and how many there are in all.
[[nodiscard]] Result<std::string> log_json(const std::string& path, std::int64_t first, std::int64_t count);

}  // namespace plimsoll::serve
