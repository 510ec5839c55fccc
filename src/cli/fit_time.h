// SPDX-License-Identifier: Apache-2.0
// The time of a step in the answers of fit: for people and for programs.
#pragma once

#include <string>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/json_writer.h"
#include "lever/world.h"
#include "timing/step_time.h"

namespace plimsoll::cli {

// "12.345 s", "45.6 ms".
[[nodiscard]] std::string format_seconds(double seconds);

// The step, its rates, and the parts that sum to it.
[[nodiscard]] std::string time_report(const timing::StepTime& time, const Console& console);

// The member "time".
void write_time(JsonWriter& json, const timing::StepTime& time);

// The built-in calibration, or the user's own (--calibration FILE); calibration_flag() for the table of the verb.
[[nodiscard]] Result<lever::World> world_of(const Arguments& arguments);

}  // namespace plimsoll::cli
