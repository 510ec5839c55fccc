// SPDX-License-Identifier: Apache-2.0
// The answer of fit for programs: everything that the report shows, in bytes. "schema" is raised when a
// member changes its meaning or goes away; new members do not raise it.
#pragma once

#include <string>
#include <vector>

#include "cli/fit_report.h"

namespace plimsoll::cli {

[[nodiscard]] std::string fit_json(const FitAnswer& fit);
[[nodiscard]] std::string sweep_json(const std::vector<SweepRow>& rows);

}  // namespace plimsoll::cli
