// SPDX-License-Identifier: Apache-2.0
// A change of a job, carried into the command that runs it: in the flags that the command has, in a copy of a
// configuration file that it names, or in the environment. What cannot be carried over is an error that says what to
// change by hand; a command is never started with half a change.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/request.h"

namespace plimsoll::live {

struct Applied {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> job_files;  // changed copies instead of the files that were changed
  std::vector<std::string> said;       // "--per_device_train_batch_size 4, was 8"
};

// `folder` takes changed copies of files; "" where there is none.
[[nodiscard]] Result<Applied> apply(const job::Job& before, const job::Job& after, const job::Settings& settings,
                                    const std::vector<std::string>& words, const std::vector<std::string>& job_files,
                                    const std::string& folder);

}  // namespace plimsoll::live
