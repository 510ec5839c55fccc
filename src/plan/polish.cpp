// SPDX-License-Identifier: Apache-2.0
#include "plan/polish.h"

#include <algorithm>
#include <cmath>

#include "job/keys.h"
#include "lever/priced.h"
#include "plan/ladder.h"
#include "timing/interval.h"

namespace plimsoll::plan {

namespace {

constexpr int kMostRounds = 4;
constexpr double kSameSeconds = 1e-6;

// What the search chose among, it chose; only the messages of context parallelism have values that it does not try.
bool is_open(const lever::Change& change, const Question& question, const job::Settings& chosen) {
  if (question.space.can_say && !question.space.can_say(change.settings)) return false;
  return std::none_of(change.settings.begin(), change.settings.end(), [&](const auto& setting) {
    const std::string& key = setting.first;
    const bool is_chosen =
        key != "cp_comm_type" &&
        std::any_of(chosen.begin(), chosen.end(), [&key](const auto& other) { return other.first == key; });
    // Another sharding is another framework's launch: a question of its own.
    return is_chosen || key == "sharding" || question.pinned.contains(job::canonical_name(key));
  });
}

struct Pull {
  job::Settings settings;
  std::string label;
  job::Job job;
  timing::StepTime time;
};

// Every lever that makes the row faster by more than predictions can tell, fastest first.
std::vector<Pull> pulls_of(const Question& question, const lever::World& world, const Found& row) {
  std::vector<Pull> pulls;
  const lever::RuleIds broken = lever::broken_rules(row.job);
  for (lever::Change& change : lever::changes_of(row.job, {})) {
    if (!is_open(change, question, row.settings)) continue;
    job::Settings settings = merged(row.settings, change.settings);
    auto job = lever::changed_job(question.request, settings, broken);
    if (!job) continue;
    auto time = lever::time_of(*job, world);
    if (!time || time->seconds > row.time.seconds * (1 - kSameTime)) continue;
    pulls.push_back({std::move(settings), std::move(change.label), *std::move(job), *std::move(time)});
  }
  std::stable_sort(pulls.begin(), pulls.end(),
                   [](const Pull& a, const Pull& b) { return a.time.seconds < b.time.seconds; });
  return pulls;
}

// The row with the fastest of them that holds; false where none does.
bool pull_one(const Question& question, const lever::World& world, const Beside* beside, Found& row) {
  for (Pull& pull : pulls_of(question, world, row)) {
    auto answer = memory::answer(pull.job, {.all = false, .pp = {}, .verdict_only = true});
    if (!answer) continue;
    world.learned.apply(pull.job, *answer);
    if (!answer->fits) continue;
    memory::RankAnswer& worst = answer->ranks[answer->worst];
    const std::int64_t more = beside != nullptr ? beside->walked(pull.job, worst) : 0;
    if (worst.device_used + more > worst.capacity) continue;
    if (row.surely_fits() && worst.high + more > worst.capacity) continue;
    row.beside = more;
    row.levers.push_back(std::move(pull.label));
    row.settings = std::move(pull.settings);
    row.worst = std::move(worst);
    row.warnings = std::move(answer->warnings);
    for (std::string& warning : timing::unmodelled(pull.job)) row.warnings.push_back("time: " + warning);
    row.job = std::move(pull.job);
    row.time = std::move(pull.time);
    return true;
  }
  return false;
}

bool is_asked_so(const job::Request& request, const lever::World& world, const Found& row) {
  const auto job = job::resolve(request.with(row.settings));
  if (!job) return false;
  const auto time = lever::time_of(*job, world);
  return time && std::abs(time->seconds - row.time.seconds) <= kSameSeconds * row.time.seconds;
}

void polish_rows(const Question& question, const lever::World& world, const SearchOptions& options,
                 std::vector<Found>& rows) {
  for (Found& row : rows) {
    if (!is_asked_so(question.request, world, row)) continue;
    for (int round = 0; round < kMostRounds && pull_one(question, world, options.beside, row); ++round) {
    }
  }
  if (options.objective == Objective::kTime)
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Found& a, const Found& b) { return a.time.seconds < b.time.seconds; });
}

}  // namespace

void polish(const Question& question, const SearchOptions& options, Plan& plan) {
  if (plan.interrupted) return;
  const lever::World built_in;
  const lever::World& world = options.world != nullptr ? *options.world : built_in;
  polish_rows(question, world, options, plan.best);
  polish_rows(question, world, options, plan.tight);
  if (plan.best.empty()) return;
  std::erase_if(plan.tight, [&plan](const Found& row) { return row.time.seconds >= plan.best.front().time.seconds; });
}

}  // namespace plimsoll::plan
