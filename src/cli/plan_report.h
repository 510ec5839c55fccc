// SPDX-License-Identifier: Apache-2.0
// The answers of plimsoll plan as text and a picture.
#pragma once

#include <string>

#include "answer/plan.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string plan_report(const plan::Plan& plan, const Console& console);
// One configuration: its table of memory, its time, and why it comes before the next.
[[nodiscard]] std::string plan_explanation(const plan::Plan& plan, std::size_t row, const Console& console);
// Two of them side by side.
[[nodiscard]] std::string plan_comparison(const plan::Plan& plan, std::size_t a, std::size_t b, const Console& console);
// Memory against time of the Pareto front.
[[nodiscard]] std::string pareto_svg(const plan::Plan& plan);

}  // namespace plimsoll::cli
