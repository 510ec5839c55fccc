// SPDX-License-Identifier: Apache-2.0
// What a plan is asked: the request to start from, which of its knobs are not to be chosen, and what else the GPUs of
// the job have to hold. `plan` asks for a training job, `rl` for the trainer of a run.
#pragma once

#include <functional>

#include "base/result.h"
#include "job/request.h"
#include "plan/search.h"

namespace plimsoll::plan {

struct Question {
  job::Request request;
  Pins pinned;
  SpaceOptions space;
  job::Settings assumed;  // where only a model is named: what its framework would leave off
};

// A first job that the framework accepts: the batch may not divide before the model is split. The error says which
// numbers of GPUs near the given one would do.
[[nodiscard]] Result<job::Job> first_job(const Question& question);

[[nodiscard]] Result<Plan> plan_for(const Question& question, const SearchOptions& options);

}  // namespace plimsoll::plan
