// SPDX-License-Identifier: Apache-2.0
// A command line as it may be written down: values that look like passwords and tokens are left out.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::live {

inline constexpr const char* kMasked = "***";

[[nodiscard]] std::vector<std::string> without_secrets(const std::vector<std::string>& words);

}  // namespace plimsoll::live
