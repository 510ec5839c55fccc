// SPDX-License-Identifier: Apache-2.0
// A post-training run as the page draws it: the answer of plimsoll rl, its simulated loop in time, and how both sides
// balance when GPUs move from one to the other.
#pragma once

#include <string>

#include "answer/rl.h"
#include "base/result.h"

namespace plimsoll::serve {

[[nodiscard]] Result<std::string> run_json(const answer::RlInput& input, const lever::World& world);
// The same run with other splits of its GPUs; a run whose sides share their GPUs has none.
[[nodiscard]] Result<std::string> splits_json(const answer::RlInput& input, const lever::World& world);
[[nodiscard]] Result<std::string> knobs_json(const answer::RlInput& input, const lever::World& world);

}  // namespace plimsoll::serve
