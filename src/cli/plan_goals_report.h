// SPDX-License-Identifier: Apache-2.0
// The answers to the questions around a plan, for people.
#pragma once

#include <string>

#include "answer/plan.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string fewest_gpus_report(const answer::FewestGpus& answer, const Console& console);
[[nodiscard]] std::string largest_value_report(const answer::LargestValue& answer, const Console& console);
[[nodiscard]] std::string gpu_hours_report(const answer::GpuHours& answer, const Console& console);

}  // namespace plimsoll::cli
