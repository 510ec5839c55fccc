// SPDX-License-Identifier: Apache-2.0
// The answer of fit for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "job/job.h"
#include "lever/priced.h"
#include "rules/rules.h"

namespace plimsoll::cli {

struct FitAnswer {
  job::Job job;
  memory::Answer answer;
  memory::AskedRanks asked;
  std::vector<lever::PricedChange> changes;
  timing::StepTime time = {};
  std::vector<rules::Violation> violations = {};  // what the framework would say to the job
};

[[nodiscard]] std::string fit_report(const FitAnswer& fit, const Console& console);

// The table of one rank, whose rows sum to the capacity.
[[nodiscard]] std::string memory_table(const memory::RankAnswer& rank, const Console& console);

// One point of a sweep: an answer, or why there is none.
struct SweepRow {
  job::Settings settings;
  Result<lever::Price> price;
};

[[nodiscard]] std::string sweep_report(const std::vector<SweepRow>& rows, const Console& console);

}  // namespace plimsoll::cli
