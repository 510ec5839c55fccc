// SPDX-License-Identifier: Apache-2.0
// Changes with their prices: by how much would each move the worst rank and the step?
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lever/lever.h"
#include "lever/price.h"

namespace plimsoll::lever {

struct PricedChange {
  Change change;
  std::int64_t worst_rank = 0;  // pipeline rank of the changed job
  std::int64_t device_used = 0;
  std::int64_t difference = 0;  // to the device memory of the job's own worst rank; negative: less
  bool fits = false;
  std::optional<double> slower;  // share of time more per token; negative: faster
};

// Rules of the framework that a job breaks, by id.
using RuleIds = std::set<std::string, std::less<>>;
[[nodiscard]] RuleIds broken_rules(const job::Job& job);

// The job that a change makes; nothing where the framework refuses it, or a rule that the job did not break before
// (`broken`) forbids it.
[[nodiscard]] std::optional<job::Job> changed_job(const job::Request& request, const job::Settings& settings,
                                                  const RuleIds& broken);

// Each change alone, on the job that the request makes and whose price is `before`. What is refused is left out.
[[nodiscard]] std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job,
                                                      const Price& before, const World& world,
                                                      std::vector<Change> changes);

// A job and its changes at once: while its ranks are walked, it is found out which changes there are.
struct PricedJob {
  Price price;
  std::vector<PricedChange> changes;
};
[[nodiscard]] Result<PricedJob> price_with_changes(const job::Request& request, const job::Job& job, const World& world,
                                                   const memory::AskedRanks& asked, std::vector<Change> changes);

}  // namespace plimsoll::lever
