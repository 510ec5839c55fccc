// SPDX-License-Identifier: Apache-2.0
// From a verb's operands and flags to jobs: the files are read once, then one job is made for every
// point of the sweep.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/sweep.h"
#include "job/read.h"

namespace plimsoll::cli {

// --framework, --model, --gpu, --gpus: for the table of a verb that reads a job.
[[nodiscard]] const std::vector<Flag>& job_flags();

struct JobInput {
  std::vector<job::InputFile> files;
  job::ReadOptions options;
};

[[nodiscard]] Result<JobInput> read_input(const Arguments& arguments);

// The input with these settings instead of flags of the same keys.
[[nodiscard]] JobInput replaced(JobInput input, const Settings& settings);

// The job with these settings on top of the flags. A key that is both a flag and swept is an error.
[[nodiscard]] Result<job::Job> make_job(const JobInput& input, const Settings& settings);

}  // namespace plimsoll::cli
