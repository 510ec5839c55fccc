// SPDX-License-Identifier: Apache-2.0
// The answers of plimsoll plan as text, JSON and a picture.
#pragma once

#include <string>

#include "cli/console.h"
#include "plan/search.h"

namespace plimsoll::cli {

[[nodiscard]] std::string plan_report(const plan::Plan& plan, const Console& console);
[[nodiscard]] std::string plan_json(const plan::Plan& plan);
// One configuration: its table of memory, its time, and why it comes before the next.
[[nodiscard]] std::string plan_explanation(const plan::Plan& plan, std::size_t row, const Console& console);
// Two of them side by side.
[[nodiscard]] std::string plan_comparison(const plan::Plan& plan, std::size_t a, std::size_t b, const Console& console);
// Memory against time of the Pareto front.
[[nodiscard]] std::string pareto_svg(const plan::Plan& plan);

// "TP 4, PP 4, VPP 5, micro-batch 1, recompute mlp".
[[nodiscard]] std::string shown(const plan::Plan& plan, const plan::Candidate& candidate);
// The same with what was pulled on top of it.
[[nodiscard]] std::string shown(const plan::Plan& plan, const plan::Found& found);

}  // namespace plimsoll::cli
