// SPDX-License-Identifier: Apache-2.0
// The answers of fit for people.
#pragma once

#include <string>

#include "answer/fit.h"
#include "answer/where_it_fits.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string fit_report(const answer::Fit& fit, const Console& console);
[[nodiscard]] std::string sweep_report(const answer::Sweep& sweep, const Console& console);
[[nodiscard]] std::string where_report(const answer::WhereItFits& where, const Console& console);

// The table of one rank, whose rows sum to the capacity.
[[nodiscard]] std::string memory_table(const memory::RankAnswer& rank, const Console& console);

}  // namespace plimsoll::cli
