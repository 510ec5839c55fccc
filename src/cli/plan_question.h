// SPDX-License-Identifier: Apache-2.0
// What plimsoll plan is asked: the job to start from, and which of its knobs are not to be chosen.
#pragma once

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/job_input.h"
#include "plan/question.h"

namespace plimsoll::cli {

using plan::first_job;
using plan::plan_for;
using plan::Question;

// --fix, --keep and --vary are read here; a lone operand may be a model's name.
[[nodiscard]] Result<Question> read_question(const Arguments& arguments);

}  // namespace plimsoll::cli
