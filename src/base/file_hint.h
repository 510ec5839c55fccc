// SPDX-License-Identifier: Apache-2.0
// What is said of a file that cannot be opened: the reason, and where there is none of that name, which was meant.
#pragma once

#include <string>

#include "base/result.h"

namespace plimsoll {

// "did you mean logs/run.log?", or "" where no name in its folder is near; a folder may be mistyped, too.
[[nodiscard]] std::string file_meant_by(const std::string& path);

// `reason` is the errno of the attempt.
[[nodiscard]] tl::unexpected<Error> cannot_open(const std::string& path, int reason);

}  // namespace plimsoll
