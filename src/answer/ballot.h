// SPDX-License-Identifier: Apache-2.0
// What evidence from beside the log does to the causes that the log left open.
#pragma once

#include <string>

#include "why/diagnosis.h"

namespace plimsoll::answer {

// The cause becomes the first, at least this sure, for this reason; the others share what is left.
void put_first(why::Diagnosis& diagnosis, why::Cause cause, double probability, std::string because);

// The cause is no longer likely, for this reason; the others share what it had.
void rule_out(why::Diagnosis& diagnosis, why::Cause cause, std::string against);

}  // namespace plimsoll::answer
