// SPDX-License-Identifier: Apache-2.0
// Amounts for the advice of an observation, where the run that was observed is known.
#pragma once

#include <vector>

#include "rl/knobs.h"
#include "rl/observe/observe.h"

namespace plimsoll::rl {

// Each advice gets what the best of the priced knobs that it means would change; one that no knob stands for gets
// nothing.
void add_amounts(const std::vector<Priced>& priced, Observation& observation);

// The same, pricing the knobs of the run. `draft` is a run before complete().
[[nodiscard]] Status add_amounts(const Run& draft, const EvaluationOptions& options, Observation& observation);

}  // namespace plimsoll::rl
