// SPDX-License-Identifier: Apache-2.0
// From a verb's operands and flags to what is asked.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/arguments.h"
#include "job/request.h"

namespace plimsoll::cli {

using job::Settings;

// --framework, --model, --gpu, --gpus: for the table of a verb that reads a job.
[[nodiscard]] const std::vector<Flag>& job_flags();

[[nodiscard]] Result<job::Request> read_input(const Arguments& arguments);

}  // namespace plimsoll::cli
