// SPDX-License-Identifier: Apache-2.0
// What nobody read of a configuration. A path that speaks of parallelism, batches, lengths, precision, adapters or
// offload is an error: a run answered without it would be another run. The rest is named in one warning.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rl/frameworks/items.h"

namespace plimsoll::rl {

// `given` are keys that flags decide, whatever the file says.
[[nodiscard]] Status check_unread(Framework framework, const Values& values, const Settings& given,
                                  std::vector<std::string>& ignored);

// The same for a tool that is only read; `passed` are starts of paths that are known to move nothing.
[[nodiscard]] Status check_unread_of_tool(const Values& values, std::span<const std::string_view> passed,
                                          std::vector<std::string>& ignored);

}  // namespace plimsoll::rl
