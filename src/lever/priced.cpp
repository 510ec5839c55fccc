// SPDX-License-Identifier: Apache-2.0
#include "lever/priced.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>

#include "base/crew.h"
#include "base/interrupt.h"
#include "rules/rules.h"

namespace plimsoll::lever {

namespace {

// work(i) for every item, on all cores.
template <class Work>
void for_each_of(const std::vector<std::size_t>& items, const Work& work) {
  std::atomic<std::size_t> next{0};
  share_work(items.size() > 1 ? 0 : 1, [&](unsigned) {
    for (std::size_t i = next++; i < items.size() && !interrupted(); i = next++) work(items[i]);
  });
}

std::vector<std::size_t> in_order(std::size_t count) {
  std::vector<std::size_t> items(count);
  std::iota(items.begin(), items.end(), std::size_t{0});
  return items;
}

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
  for_each_of(in_order(changes.size()),
              [&](std::size_t i) { changed[i] = changed_job(request, changes[i].settings, broken); });
  std::vector<std::optional<PricedChange>> found(changes.size());
  for_each_of(longest_first(changed), [&](std::size_t i) {
    const auto after = price(*changed[i], world, {.all = false, .pp = {}, .figures_only = true});
    if (!after) return;
    const memory::RankAnswer& worst = after->worst();
    found[i] = PricedChange{std::move(changes[i]), worst.pp_rank,
                            worst.device_used,     worst.device_used - before.worst().device_used,
                            after->fits(),         slower(before.time, after->time)};
  });
  std::vector<PricedChange> priced;
  for (auto& change : found)
    if (change) priced.push_back(*std::move(change));
  return priced;
}

}  // namespace plimsoll::lever
