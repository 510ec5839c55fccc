// SPDX-License-Identifier: Apache-2.0
// After a run that ran out of memory: the cheapest change that leaves what is learned alone, or that was named, and
// that the prediction, corrected by what this run needed, says will fit; and the command that applies it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "live/record.h"

namespace plimsoll::live {

struct Retry {
  std::vector<std::string> words;                                // the command, changed
  std::vector<std::pair<std::string, std::string>> environment;  // to set for it
  std::vector<std::string> job_files;                            // those that describe it now
  Prediction prediction;                                         // of the changed job
  std::string shown;                                             // for people: the change, why, where it is set
};

// Bytes that the job needs beyond its prediction, as the failure shows: 0 where the prediction said already that it
// would not fit.
[[nodiscard]] std::int64_t missing_bytes(const Run& run, const Prediction& prediction);

// Ids of the levers that change what is learned.
[[nodiscard]] const std::vector<std::string>& numeric_levers();

// `job_files` are those that described the job: where the command names one, it gets a changed copy beside it.
// `allowed` are the levers of numeric_levers() that the user named; they are pulled only where no other change fits and
// can be set.
[[nodiscard]] Result<Retry> plan_retry(const Run& run, const Prediction& prediction, const lever::World& world,
                                       const std::vector<std::string>& words, const std::vector<std::string>& job_files,
                                       const std::vector<std::string>& allowed = {});

}  // namespace plimsoll::live
