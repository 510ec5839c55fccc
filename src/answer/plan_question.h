// SPDX-License-Identifier: Apache-2.0
// What plimsoll plan is asked: the job to start from, and which of its knobs are not to be chosen.
#pragma once

#include <string>
#include <vector>

#include "answer/input.h"
#include "plan/question.h"

namespace plimsoll::answer {

using plan::Question;

struct PlanInput {
  Input input;                     // a lone operand may be a model's name
  std::vector<std::string> fixed;  // KEY=VALUE: knobs that are not to be chosen
  std::vector<std::string> kept;   // keys, or sections of the job file for all their keys
  std::string target;              // whose files are to be written: where only a model is named, whose job it is
  bool changes_numerics = false;   // also what rounds differently
};

[[nodiscard]] Result<Question> read_question(PlanInput asked);

}  // namespace plimsoll::answer
