// SPDX-License-Identifier: Apache-2.0
// Whether a rung of the ladder can apply to the run that the log shows, and what to look at after it.
#pragma once

#include <string>
#include <string_view>

#include "why/diagnosis.h"
#include "why/findings.h"
#include "why/rungs.h"

namespace plimsoll::why {

// False where the rung needs what this run does not have: other GPUs to split over, a batch to halve.
[[nodiscard]] bool can_apply(std::string_view id, const Diagnosis& diagnosis, const Findings& findings);

// XLA: programs are compiled and sharded as one.
[[nodiscard]] bool is_compiled_whole(const Diagnosis& diagnosis);

// Adam makes its moments at the end of the first step; before it no rung can win them back.
[[nodiscard]] bool moments_do_not_exist(const Diagnosis& diagnosis, const Findings& findings);

// The other holders of the device are ranks of this very job.
[[nodiscard]] bool siblings_hold(const Diagnosis& diagnosis, const Findings& findings);

// What shows that the change did its work.
[[nodiscard]] std::string verification_of(const Rung& rung, const Diagnosis& diagnosis);

}  // namespace plimsoll::why
