// SPDX-License-Identifier: Apache-2.0
// A plan whose best can be written: what the files of a target cannot say is not chosen.
#pragma once

#include <string>
#include <vector>

#include "answer/plan.h"

namespace plimsoll::answer {

struct WritablePlan {
  plan::Plan plan;
  std::vector<std::string> left;  // keys that stayed as the job has them, because the target has no words for others
};
[[nodiscard]] Result<WritablePlan> plan_to_write(Question question, emit::Target target,
                                                 const plan::SearchOptions& options);

}  // namespace plimsoll::answer
