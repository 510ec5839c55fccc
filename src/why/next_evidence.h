// SPDX-License-Identifier: Apache-2.0
// The one piece of evidence that would separate the two most probable causes: a command to run or a line to add.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "why/diagnosis.h"

namespace plimsoll::why {

struct NextEvidence {
  std::string command;
  std::string_view tells;  // how to read what it prints
};

// Below this an answer is a ranking, not a verdict.
inline constexpr double kSureEnough = 0.8;

// nullopt where the answer is sure enough, or nothing failed. `job_known`: the job need not be asked for any more.
[[nodiscard]] std::optional<NextEvidence> next_evidence(const Diagnosis& diagnosis, bool job_known = false);

}  // namespace plimsoll::why
