// SPDX-License-Identifier: Apache-2.0
// An existing job made to fit in the steps that cost least: the cheapest change that suffices alone, else the
// cheapest that helps, again and again. Changes of the science (sequence length, precision, optimizer) are priced and
// shown, but never taken.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/console.h"
#include "cli/fit_changes.h"

namespace plimsoll::cli {

struct LadderStep {
  PricedChange taken;
  std::vector<PricedChange> passed_over;  // cheapest first
};

struct Ladder {
  memory::RankAnswer before;
  bool fits_already = false;
  bool fits = false;  // at the end
  std::vector<LadderStep> steps;
  std::vector<PricedChange> science;  // priced on the job as it was
  Settings settings;                  // all changes that were taken
  memory::RankAnswer after;
};

[[nodiscard]] Result<Ladder> climb(const JobInput& input);
[[nodiscard]] std::string ladder_report(const Ladder& ladder, const Console& console);
[[nodiscard]] std::string ladder_json(const Ladder& ladder);

}  // namespace plimsoll::cli
