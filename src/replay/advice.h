// SPDX-License-Identifier: Apache-2.0
// What a user should know about settings: which of them PyTorch ignores, which known defects of the allocator they
// or the recording meet, what they break (facts pytorch-allocator.md 4, 6, 8, 14; rules.md R138, R139).
#pragma once

#include <string>
#include <vector>

#include "allocator/settings.h"
#include "replay/run.h"

namespace plimsoll::replay {

// About settings as such; `largest_request` in bytes, 0 where it is not known.
[[nodiscard]] std::vector<std::string> advise(const allocator::Settings& settings, std::int64_t largest_request);

// About a run under them.
[[nodiscard]] std::vector<std::string> advise(const Run& run);

}  // namespace plimsoll::replay
