// SPDX-License-Identifier: Apache-2.0
// Thousands of ranks on one screen: groups that hold the same, outliers, who ran out.
#pragma once

#include <string>

#include "cli/console.h"
#include "live/parts.h"
#include "live/parts_diff.h"

namespace plimsoll::cli {

[[nodiscard]] std::string ranks_report(const live::Part& part, const Console& console);
// Rank by rank, in groups that changed alike.
[[nodiscard]] std::string ranks_diff_report(const live::RanksDiff& diff, const Console& console);

}  // namespace plimsoll::cli
