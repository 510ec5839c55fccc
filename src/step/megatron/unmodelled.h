// SPDX-License-Identifier: Apache-2.0
// Knobs that a Megatron job can set and that this step does not follow: each becomes a named warning,
// which also widens the interval of the answer.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace plimsoll::step::megatron {

[[nodiscard]] std::vector<std::string> unmodelled(const job::Job& job);

}  // namespace plimsoll::step::megatron
