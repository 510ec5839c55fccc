// SPDX-License-Identifier: Apache-2.0
#include "lever/priced.h"

#include <algorithm>
#include <optional>

#include "base/crew.h"
#include "base/interrupt.h"
#include "rules/rules.h"

namespace plimsoll::lever {

namespace {

// The jobs that there are, those with the most to walk first: no core has to wait for the last one long.
std::vector<std::size_t> longest_first(const std::vector<std::optional<job::Job>>& jobs) {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (jobs[i]) items.push_back(i);
  const auto passes = [&jobs](std::size_t i) {
    return std::min(jobs[i]->micro_batches, 3 * jobs[i]->parallel.pipeline);
  };
  std::stable_sort(items.begin(), items.end(), [&](std::size_t a, std::size_t b) { return passes(a) > passes(b); });
  return items;
}

}  // namespace

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
  std::vector<std::optional<job::Job>> changed(changes.size());
  share_items(changes.size(), [&](std::size_t i) {
    if (!interrupted()) changed[i] = changed_job(request, changes[i].settings, broken);
  });
  const std::vector<std::size_t> order = longest_first(changed);
  std::vector<const job::Job*> jobs;
  for (std::size_t i : order) jobs.push_back(&*changed[i]);
  const std::vector<Result<Price>> after = prices(jobs, world, {.all = false, .pp = {}, .figures_only = true});
  std::vector<std::optional<PricedChange>> found(changes.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (!after[k]) continue;
    const memory::RankAnswer& worst = after[k]->worst();
    found[order[k]] = PricedChange{std::move(changes[order[k]]),
                                   worst.pp_rank,
                                   worst.device_used,
                                   worst.device_used - before.worst().device_used,
                                   after[k]->fits(),
                                   slower(before.time, after[k]->time)};
  }
  std::vector<PricedChange> priced;
  for (auto& change : found)
    if (change) priced.push_back(*std::move(change));
  return priced;
}

}  // namespace plimsoll::lever
