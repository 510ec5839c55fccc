// SPDX-License-Identifier: Apache-2.0
// The JSON of what several answers hold: one function per type, so that a job or a table looks the same wherever it
// stands.
#pragma once

#include <vector>

#include "answer/json.h"
#include "job/job.h"
#include "memory/answer.h"
#include "rules/rules.h"
#include "timing/step_time.h"

namespace plimsoll::answer {

// The member "job": everything that was understood of it, so that a reader can check what was read. `plimsoll read`
// says where each key came from.
void describe(JsonWriter& json, const job::Job& job);

// The member "time".
// Whether the GPU waits for launches during a good part of the step.
[[nodiscard]] bool is_launch_bound(const timing::StepTime& time);

void describe(JsonWriter& json, const timing::StepTime& time);

// The member "violations".
void describe(JsonWriter& json, const std::vector<rules::Violation>& violations);

// The member "table": rows that sum to the capacity.
void describe(JsonWriter& json, const std::vector<memory::Row>& table);

// "fix": what to do, and "set" where that is one key.
void describe_fix(JsonWriter& json, const rules::Rule& rule);

}  // namespace plimsoll::answer
