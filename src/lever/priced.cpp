// SPDX-License-Identifier: Apache-2.0
#include "lever/priced.h"

#include <atomic>
#include <optional>

#include "base/crew.h"
#include "base/interrupt.h"
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
  const RuleIds broken = broken_rules(job);
  std::vector<std::optional<PricedChange>> found(changes.size());
  std::atomic<std::size_t> next{0};
  share_work(changes.size() > 1 ? 0 : 1, [&](unsigned) {
    for (std::size_t i = next++; i < changes.size() && !interrupted(); i = next++) {
      const auto changed = changed_job(request, changes[i].settings, broken);
      if (!changed) continue;
      const auto after = price(*changed, world, {.all = false, .pp = {}, .figures_only = true});
      if (!after) continue;
      const memory::RankAnswer& worst = after->worst();
      found[i] = PricedChange{std::move(changes[i]), worst.pp_rank,
                              worst.device_used,     worst.device_used - before.worst().device_used,
                              after->fits(),         slower(before.time, after->time)};
    }
  });
  std::vector<PricedChange> priced;
  for (auto& change : found)
    if (change) priced.push_back(*std::move(change));
  return priced;
}

}  // namespace plimsoll::lever
