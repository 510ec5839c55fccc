// SPDX-License-Identifier: Apache-2.0
// What plimsoll plan is asked: the job to start from, and which of its knobs are not to be chosen.
#pragma once

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/job_input.h"
#include "plan/search.h"

namespace plimsoll::cli {

struct Question {
  job::Request request;
  plan::Pins pinned;
  plan::SpaceOptions space;
  Settings assumed;  // where only a model is named: what its framework would leave off
};

// --fix, --keep and --vary are read here; a lone operand may be a model's name.
[[nodiscard]] Result<Question> read_question(const Arguments& arguments);

// A first job that the framework accepts: the batch may not divide before the model is split. The error says which
// numbers of GPUs near the given one would do.
[[nodiscard]] Result<job::Job> first_job(const Question& question);

[[nodiscard]] Result<plan::Plan> plan_for(const Question& question, const plan::SearchOptions& options);

}  // namespace plimsoll::cli
