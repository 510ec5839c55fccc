// SPDX-License-Identifier: Apache-2.0
#include "lever/priced.h"

#include "rules/rules.h"

namespace plimsoll::lever {

RuleIds broken_rules(const job::Job& job) {
  RuleIds ids;
  for (const rules::Violation& violation : rules::check(job))
    if (violation.rule->severity == rules::Severity::kError) ids.emplace(violation.rule->id);
  return ids;
}

std::optional<job::Job> changed_job(const job::Request& request, const job::Settings& settings, const RuleIds& broken) {
  auto job = job::resolve(request.with(settings));
  if (!job) return std::nullopt;
  for (const std::string& id : broken_rules(*job))
    if (!broken.contains(id)) return std::nullopt;
  return *std::move(job);
}

std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job, const Price& before,
                                        const World& world, std::vector<Change> changes) {
  std::vector<PricedChange> priced;
  const RuleIds broken = broken_rules(job);
  for (Change& change : changes) {
    const auto changed = changed_job(request, change.settings, broken);
    if (!changed) continue;
    const auto after = price(*changed, world);
    if (!after) continue;
    const memory::RankAnswer& worst = after->worst();
    priced.push_back({std::move(change), worst.pp_rank, worst.device_used,
                      worst.device_used - before.worst().device_used, after->fits(), slower(before.time, after->time)});
  }
  return priced;
}

}  // namespace plimsoll::lever
