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

// The seconds of a job whose ranks are walked elsewhere; of one that was refused nobody asks for them.
class Timed {
 public:
  void find(const memory::Question& question, const job::Job& job, const World& world) {
    if (question.ranks() > 0) seconds_ = time_of(job, world);
  }
  Result<Price> with(memory::Question& question, const job::Job& job, const World& world) {
    return price_of(question.answer(), std::move(seconds_), job, world);
  }

 private:
  Result<timing::StepTime> seconds_;
};

// The changes of a job on their way to their prices.
class Pricing {
 public:
  Pricing(const job::Request& request, const job::Job& job, const World& world, std::vector<Change> changes)
      : request_(request), job_(job), world_(world), changes_(std::move(changes)), jobs_(changes_.size()) {}

  // First: which changes there are. Answers how many pieces of work they are.
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
    times_.resize(questions_.size());
    return walks_.size() + times_.size();
  }
  // Then each of them, in any order and at once. The short ones come last: the cores end together.
  void work(std::size_t i) {
    if (i < walks_.size()) return questions_[walks_[i].first].walk(walks_[i].second);
    const std::size_t k = i - walks_.size();
    times_[k].find(questions_[k], *jobs_[order_[k]], world_);
  }
  // Last, once, when the price of the job itself is known.
  std::vector<PricedChange> finish(const Price& before) {
    std::vector<std::optional<PricedChange>> found(changes_.size());
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const std::size_t i = order_[k];
      const Result<Price> after = times_[k].with(questions_[k], *jobs_[i], world_);
      if (!after) continue;
      const memory::RankAnswer& worst = after->worst();
      found[i] = PricedChange{std::move(changes_[i]), worst.pp_rank,
                              worst.device_used,      worst.device_used - before.worst().device_used,
                              after->fits(),          slower(before.time, after->time)};
    }
    std::vector<PricedChange> priced;
    for (auto& change : found)
      if (change) priced.push_back(*std::move(change));
    return priced;
  }

 private:
  const job::Request& request_;
  const job::Job& job_;
  const World& world_;
  std::vector<Change> changes_;
  std::vector<std::optional<job::Job>> jobs_;               // of changes_
  std::vector<std::size_t> order_;                          // into them
  std::vector<memory::Question> questions_;                 // of order_
  std::vector<std::pair<std::size_t, std::size_t>> walks_;  // a question and one of its ranks
  std::vector<Timed> times_;                                // of questions_
};

}  // namespace

std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job, const Price& before,
                                        const World& world, std::vector<Change> changes) {
  Pricing pricing(request, job, world, std::move(changes));
  const std::size_t pieces = pricing.prepare();
  share_items(pieces, [&pricing](std::size_t i) { pricing.work(i); });
  return pricing.finish(before);
}

Result<PricedJob> price_with_changes(const job::Request& request, const job::Job& job, const World& world,
                                     const memory::AskedRanks& asked, std::vector<Change> changes) {
  memory::Question itself(job, asked);
  itself.prepare();
  Timed timed;
  Pricing pricing(request, job, world, std::move(changes));
  share_in_parts(
      itself.ranks() + 1,
      [&](std::size_t i) {
        if (i < itself.ranks()) return itself.walk(i);
        timed.find(itself, job, world);
      },
      [&pricing] { return pricing.prepare(); }, [&pricing](std::size_t i) { pricing.work(i); });
  PLIMSOLL_TRY(price, timed.with(itself, job, world));
  std::vector<PricedChange> priced = pricing.finish(price);
  return PricedJob{std::move(price), std::move(priced)};
}

}  // namespace plimsoll::lever
