// SPDX-License-Identifier: Apache-2.0
// A job with some keys changed, as a job file (TOML): what --fix writes.
#pragma once

#include <string>

#include "answer/input.h"

namespace plimsoll::answer {

// A single job file keeps its own keys; another input is written out in canonical keys.
[[nodiscard]] Result<std::string> job_as_toml(const job::Request& request, const job::Job& job,
                                              const Settings& settings);

}  // namespace plimsoll::answer
