// SPDX-License-Identifier: Apache-2.0
// What `rl` says about a run, for people.
#pragma once

#include <string>
#include <vector>

#include "answer/rl.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string rl_report(const rl::Run& run, const rl::Evaluation& evaluation, const Console& console);
[[nodiscard]] std::string rl_plan_report(const rl::Plan& plan, const Console& console);
[[nodiscard]] std::string rl_knobs_report(const std::vector<rl::Priced>& knobs, const Console& console);
[[nodiscard]] std::string rl_keys_report(const Console& console);

}  // namespace plimsoll::cli
