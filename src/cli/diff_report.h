// SPDX-License-Identifier: Apache-2.0
// What diff found, for people.
#pragma once

#include <string>

#include "answer/diff.h"
#include "cli/arguments.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string recording_diff_report(const answer::RecordingDiff& diff, const Console& console);
[[nodiscard]] std::string job_diff_report(const answer::JobDiff& diff, const Console& console);
[[nodiscard]] std::string step_diff_report(const answer::StepDiff& diff, const Console& console);

// --limit: how much more the second may hold, a share or bytes.
[[nodiscard]] Result<answer::GrowthLimit> growth_limit(const Arguments& arguments);

}  // namespace plimsoll::cli
