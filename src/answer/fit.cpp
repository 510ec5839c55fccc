// SPDX-License-Identifier: Apache-2.0
#include "answer/fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/lint.h"
#include "timing/interval.h"

namespace plimsoll::answer {

namespace {

std::vector<lever::Change> usual_changes(const job::Job& job) {
  return lever::changes_of(job, {.only_usual = true, .science = true});
}

}  // namespace

bool Fit::holds() const { return memory.fits && !has_error(violations); }

Result<Fit> fit(const job::Request& request, const lever::World& world, const memory::AskedRanks& asked,
                Changes changes) {
  PLIMSOLL_TRY(job, job::resolve(request));
  // Changes are compared with the worst rank: where one rank was asked for, there is nothing to compare.
  const bool with_changes = changes == Changes::kUsual && !asked.pp;
  PLIMSOLL_TRY(priced, lever::price_with_changes(request, job, world, asked,
                                                 with_changes ? usual_changes(job) : std::vector<lever::Change>{}));
  Fit fit{std::move(job), std::move(priced.price.memory), asked, {}, std::move(priced.price.time)};
  fit.changes = std::move(priced.changes);
  PLIMSOLL_TRY(batching, answer::batching(request, fit.job, world));
  fit.batching = std::move(batching);
  fit.violations = rules::check(fit.job);
  for (const std::string& assumed : timing::unmodelled(fit.job)) fit.memory.warnings.push_back("time: " + assumed);
  return fit;
}

Result<lever::Estimate> estimate(const job::Request& request, const lever::World& world) {
  PLIMSOLL_TRY(job, job::resolve(request));
  return lever::estimate(job, world);
}

void price_changes(const job::Request& request, const lever::World& world, Fit& fit) {
  if (fit.asked.pp) return;
  fit.changes = lever::price_changes(request, fit.job, {fit.memory, fit.time}, world, usual_changes(fit.job));
}

bool Sweep::any_fits() const {
  return std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.price && row.price->fits(); });
}

Result<Sweep> sweep(const job::Request& request, const std::vector<job::Settings>& points, const lever::World& world,
                    const memory::AskedRanks& asked, const Progress& progress) {
  Sweep answer;
  answer.rows.reserve(points.size());
  bool any_answer = false;
  for (const job::Settings& settings : points) {
    const Result<job::Job> job = job::resolve(request.with(settings));
    auto price = job ? lever::price(*job, world, asked) : Result<lever::Price>{tl::make_unexpected(job.error())};
    if (!price && price.error().code == Code::kUsage) return tl::make_unexpected(price.error());
    if (price) {
      any_answer = true;
      for (const std::string& warning : price->memory.warnings)
        if (std::find(answer.warnings.begin(), answer.warnings.end(), warning) == answer.warnings.end())
          answer.warnings.push_back(warning);
    }
    answer.rows.push_back({settings, std::move(price)});
    tell(progress, fmt::format("answered {} of {}", answer.rows.size(), points.size()),
         part_of(answer.rows.size(), points.size()));
  }
  if (!any_answer) return tl::make_unexpected(answer.rows.front().price.error());
  return answer;
}

}  // namespace plimsoll::answer
