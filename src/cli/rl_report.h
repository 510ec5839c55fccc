// SPDX-License-Identifier: Apache-2.0
// What `rl` says about a run: as text and as JSON, the same numbers in both.
#pragma once

#include <string>

#include "cli/console.h"
#include "rl/evaluate.h"
#include "rl/knobs.h"
#include "rl/plan.h"

namespace plimsoll::cli {

[[nodiscard]] std::string rl_report(const rl::Run& run, const rl::Evaluation& evaluation, const Console& console);
[[nodiscard]] std::string rl_json(const rl::Run& run, const rl::Evaluation& evaluation);

[[nodiscard]] std::string rl_plan_report(const rl::Plan& plan, const Console& console);
[[nodiscard]] std::string rl_plan_json(const rl::Plan& plan);

[[nodiscard]] std::string rl_knobs_report(const std::vector<rl::Priced>& knobs, const Console& console);
[[nodiscard]] std::string rl_knobs_json(const std::vector<rl::Priced>& knobs);

// Every key of a run with its section, type and meaning.
[[nodiscard]] std::string rl_keys_json();
[[nodiscard]] std::string rl_keys_report(const Console& console);

// "fsdp2, dp 8", "megatron-lm, tp 4, pp 2, dp 1".
[[nodiscard]] std::string describe_trainer(const rl::Run& run);

}  // namespace plimsoll::cli
