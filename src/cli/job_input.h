// SPDX-License-Identifier: Apache-2.0
// From a verb's operands and flags to what is asked.
#pragma once

#include <vector>

#include "answer/input.h"
#include "base/result.h"
#include "cli/arguments.h"

namespace plimsoll::cli {

// --framework, --model, --gpu, --gpus: for the table of a verb that reads a job.
[[nodiscard]] const std::vector<Flag>& job_flags();

[[nodiscard]] Result<answer::Input> input_of(const Arguments& arguments);
[[nodiscard]] Result<job::Request> read_input(const Arguments& arguments);

// The world of a verb with --calibration FILE.
[[nodiscard]] Result<lever::World> world_of(const Arguments& arguments);

}  // namespace plimsoll::cli
