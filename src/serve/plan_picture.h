// SPDX-License-Identifier: Apache-2.0
// A plan as the page draws it: the answer of plimsoll plan, and every point behind it that fits by the closed form.
#pragma once

#include <string>

#include "answer/plan.h"
#include "base/result.h"
#include "serve/query.h"

namespace plimsoll::serve {

inline constexpr std::size_t kShownPlans = 20;
inline constexpr std::size_t kDrawnPoints = 32'000;  // 5 MB for the page; the searches of large models have as many

[[nodiscard]] std::string plan_json(const plan::Plan& plan);
// The files that launch row `event` of the plan, for the target that `setting` names.
[[nodiscard]] Result<std::string> launch_json(const plan::Plan& plan, const Query& query);

}  // namespace plimsoll::serve
