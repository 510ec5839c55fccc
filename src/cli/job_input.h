// SPDX-License-Identifier: Apache-2.0
// From a verb's operands and flags to what is asked.
#pragma once

#include <vector>

#include "answer/input.h"
#include "base/result.h"
#include "cli/arguments.h"
#include "cli/console.h"

namespace plimsoll::cli {

// --framework, --model, --gpu, --gpus: for the table of a verb that reads a job.
[[nodiscard]] const std::vector<Flag>& job_flags();

[[nodiscard]] Result<answer::Input> input_of(const Arguments& arguments);
[[nodiscard]] Result<job::Request> read_input(const Arguments& arguments);

// The world of a verb with --calibration FILE.
[[nodiscard]] Result<lever::World> world_of(const Arguments& arguments);

// Warns of what plimsoll learn changes in answers for the job; a verb whose answers carry such words has no need of it.
void say_learned(const lever::World& world, const job::Job& job, const Console& console);

}  // namespace plimsoll::cli
