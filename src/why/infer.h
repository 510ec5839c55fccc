// SPDX-License-Identifier: Apache-2.0
// From a situation to ranked causes with probabilities: first the resource, then the mechanism among its causes.
#pragma once

#include <vector>

#include "why/diagnosis.h"
#include "why/situation.h"

namespace plimsoll::why {

// By probability, the most probable first; never empty. Probabilities sum to one or less.
[[nodiscard]] std::vector<Candidate> infer(const Situation& at);

// What is stated where the weights give the first cause this probability: the share of such answers that were right.
[[nodiscard]] double stated(double weighed);
// The same for one cause: some are taken for another too often to be called sure, whatever the weights give.
[[nodiscard]] double stated(double weighed, Cause first);

}  // namespace plimsoll::why
