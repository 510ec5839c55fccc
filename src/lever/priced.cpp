// SPDX-License-Identifier: Apache-2.0
#include "lever/priced.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/crew.h"
#include "base/interrupt.h"
#include "memory/question.h"
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

namespace {

// The changes of a job on their way to their prices.
class Pricing {
 public:
  Pricing(const job::Request& request, const job::Job& job, std::vector<Change> changes)
      : request_(request), job_(job), changes_(std::move(changes)), jobs_(changes_.size()) {}

  // First: which changes there are. Answers how many ranks they have to walk.
  std::size_t prepare() {
    if (changes_.empty()) return 0;
    const RuleIds broken = broken_rules(job_);
    for (std::size_t i = 0; i < changes_.size() && !interrupted(); ++i)
      jobs_[i] = changed_job(request_, changes_[i].settings, broken);
    order_ = longest_first(jobs_);
    questions_.reserve(order_.size());
    for (const std::size_t i : order_) {
      memory::Question& question =
          questions_.emplace_back(*jobs_[i], memory::AskedRanks{.all = false, .pp = {}, .figures_only = true});
      question.prepare();
      for (std::size_t r = 0; r < question.ranks(); ++r) walks_.emplace_back(questions_.size() - 1, r);
    }
    return walks_.size();
  }
  // Then each of them, in any order and at once.
  void walk(std::size_t i) { questions_[walks_[i].first].walk(walks_[i].second); }
  // Last, once, when the price of the job itself is known.
  std::vector<PricedChange> finish(const Price& before, const World& world) {
    std::vector<std::optional<PricedChange>> found(changes_.size());
    share_items(order_.size(), [&](std::size_t k) {
      const std::size_t i = order_[k];
      const Result<Price> after = price_of(questions_[k].answer(), *jobs_[i], world);
      if (!after) return;
      const memory::RankAnswer& worst = after->worst();
      found[i] = PricedChange{std::move(changes_[i]), worst.pp_rank,
                              worst.device_used,      worst.device_used - before.worst().device_used,
                              after->fits(),          slower(before.time, after->time)};
    });
    std::vector<PricedChange> priced;
    for (auto& change : found)
      if (change) priced.push_back(*std::move(change));
    return priced;
  }

 private:
  const job::Request& request_;
  const job::Job& job_;
  std::vector<Change> changes_;
  std::vector<std::optional<job::Job>> jobs_;               // of changes_
  std::vector<std::size_t> order_;                          // into them
  std::vector<memory::Question> questions_;                 // of order_
  std::vector<std::pair<std::size_t, std::size_t>> walks_;  // a question and one of its ranks
};

}  // namespace

std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job, const Price& before,
                                        const World& world, std::vector<Change> changes) {
  Pricing pricing(request, job, std::move(changes));
  const std::size_t walks = pricing.prepare();
  share_items(walks, [&pricing](std::size_t i) { pricing.walk(i); });
  return pricing.finish(before, world);
}

Result<PricedJob> price_with_changes(const job::Request& request, const job::Job& job, const World& world,
                                     const memory::AskedRanks& asked, std::vector<Change> changes) {
  memory::Question itself(job, asked);
  itself.prepare();
  Pricing pricing(request, job, std::move(changes));
  share_in_parts(
      itself.ranks(), [&itself](std::size_t i) { itself.walk(i); }, [&pricing] { return pricing.prepare(); },
      [&pricing](std::size_t i) { pricing.walk(i); });
  PLIMSOLL_TRY(price, price_of(itself.answer(), job, world));
  std::vector<PricedChange> priced = pricing.finish(price, world);
  return PricedJob{std::move(price), std::move(priced)};
}

}  // namespace plimsoll::lever
