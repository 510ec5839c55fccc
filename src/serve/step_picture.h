// SPDX-License-Identifier: Apache-2.0
// One rank's step as the page draws it: memory in columns over operations or seconds, and the schedule of all ranks on
// the same axis of seconds.
#pragma once

#include <string>

#include "base/result.h"
#include "job/job.h"
#include "lever/world.h"
#include "memory/course.h"
#include "serve/query.h"
#include "serve/step_axis.h"
#include "timing/step_time.h"

namespace plimsoll::serve {

struct StepPicture {
  memory::Course course;
  timing::StepTime time;
  std::vector<std::vector<timing::PassSpan>> schedule;  // by pipeline rank; empty: too many passes to draw
  double passes_end = 0;                                // seconds: the last pass of the last rank
  StepAxis axis;
};

[[nodiscard]] Result<StepPicture> make_step_picture(const job::Job& job, const lever::World& world, std::int64_t rank);

// The columns that a query asks for; `from` and `to` are events or seconds, by its axis.
[[nodiscard]] Result<std::string> step_json(const StepPicture& picture, const Query& query);
// The schedule: rows of passes, and what follows them.
[[nodiscard]] std::string schedule_json(const StepPicture& picture, const Query& query);
// What is alive after an event.
[[nodiscard]] Result<std::string> alive_json(const StepPicture& picture, const Query& query);

}  // namespace plimsoll::serve
