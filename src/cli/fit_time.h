// SPDX-License-Identifier: Apache-2.0
// The time of a step for people.
#pragma once

#include <string>

#include "answer/fit.h"
#include "cli/console.h"

namespace plimsoll::cli {

// "12.345 s", "45.6 ms".
[[nodiscard]] std::string format_seconds(double seconds);

// The step, its rates, and the parts that sum to it.
[[nodiscard]] std::string time_report(const timing::StepTime& time, const Console& console);

}  // namespace plimsoll::cli
