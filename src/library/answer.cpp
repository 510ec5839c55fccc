// SPDX-License-Identifier: Apache-2.0
#include "answer/diff.h"
#include "answer/fit.h"
#include "answer/lint.h"
#include "answer/plan.h"
#include "answer/read.h"
#include "answer/rl.h"
#include "answer/score.h"
#include "answer/why.h"
#include "base/interrupt.h"
#include "cli/diff_report.h"
#include "cli/fit_report.h"
#include "cli/lint_report.h"
#include "cli/plan_ladder_report.h"
#include "cli/plan_report.h"
#include "cli/read_report.h"
#include "cli/rl_observe.h"
#include "cli/rl_report.h"
#include "cli/score_report.h"
#include "cli/why_text.h"
#include "library/impl.h"

namespace plimsoll::api {

bool Answer::yes() const { return impl_->yes; }
std::string Answer::json() const { return impl_->json(); }
const std::vector<std::string>& Answer::warnings() const { return impl_->warnings; }

std::string Answer::text(int width) const {
  cli::Console console;
  console.width = width;
  return impl_->text(console);
}

namespace {

constexpr auto kJson = [](const auto& value) { return answer::to_json(value); };

Rank outside(const memory::RankAnswer& rank) {
  Rank out{rank.pp_rank,        rank.fits,          rank.capacity, rank.device_used, rank.headroom,
           rank.peak_allocated, rank.peak_reserved, rank.low,      rank.high,        {}};
  for (const memory::Row& row : rank.table) out.table.push_back({row.name, row.bytes, row.estimated});
  return out;
}

StepTime outside(const timing::StepTime& time) {
  return {time.seconds, time.low, time.high, time.tokens_per_second_per_gpu, time.mfu};
}

// What plimsoll learn changes in answers for the job.
std::vector<std::string> learned_words(const World& world, const plimsoll::Result<job::Job>& job) {
  return job ? world.impl().world.learned.words(*job) : std::vector<std::string>{};
}

}  // namespace

Result<Fit> fit(const Job& job, const World& world, const FitOptions& options) {
  memory::AskedRanks asked;
  asked.pp = options.pipeline_rank;
  asked.all = options.all_ranks;
  auto fit = answer::fit(job.impl().request, world.impl().world, asked,
                         options.changes ? answer::Changes::kUsual : answer::Changes::kNone);
  if (!fit) return outside(fit.error());
  std::vector<Rank> ranks;
  for (const memory::RankAnswer& rank : fit->memory.ranks) ranks.push_back(outside(rank));
  const StepTime time = outside(fit->time);
  const bool fits = fit->memory.fits;
  const std::size_t worst = fit->memory.worst;
  const bool holds = fit->holds();
  std::vector<std::string> warnings = fit->memory.warnings;
  return Fit(hold(holds, std::move(warnings), *std::move(fit), kJson, cli::fit_report), fits, std::move(ranks), worst,
             time);
}

Result<Estimate> estimate(const Job& job, const World& world) {
  auto estimate = answer::estimate(job.impl().request, world.impl().world);
  if (!estimate) return outside(estimate.error());
  const memory::Least& least = estimate->memory;
  return Estimate{least.pp_rank,  least.tensors,   least.outside,
                  least.capacity, least.may_fit(), outside(estimate->time)};
}

Result<Answer> understand(const Job& job, bool with_defaults) {
  auto read =
      answer::understand(job.impl().request, with_defaults ? answer::Defaults::kShown : answer::Defaults::kHidden);
  if (!read) return outside(read.error());
  const bool whole = read->missing.empty();
  std::vector<std::string> warnings = read->job.warnings;
  return Answer(hold(whole, std::move(warnings), *std::move(read), kJson, cli::read_report));
}

Result<Answer> lint(const Job& job) {
  auto lint = answer::lint(job.impl().request);
  if (!lint) return outside(lint.error());
  const bool clean = !answer::has_error(lint->violations);
  std::vector<std::string> warnings = lint->not_checked;
  return Answer(hold(clean, std::move(warnings), *std::move(lint), kJson, cli::lint_report));
}

Result<Answer> diff(const Job& before, const Job& after, const World& world) {
  auto diff = answer::compare_jobs(before.impl().request, after.impl().request, world.impl().world);
  if (!diff) return outside(diff.error());
  diff->name_a = "before";
  diff->name_b = "after";
  const auto shared = std::make_shared<const answer::JobDiff>(*std::move(diff));
  return Answer(std::make_shared<const Answer::Impl>(
      Answer::Impl{true, learned_words(world, job::resolve(before.impl().request)),
                   [shared] { return answer::to_json(*shared, true); },
                   [shared](const cli::Console& console) { return cli::job_diff_report(*shared, console); }}));
}

Result<Answer> plan(const std::vector<std::string>& files, const Options& options, const World& world,
                    const PlanOptions& how) {
  answer::PlanInput asked{input_of(files, options), how.fixed, how.kept, {}, how.changes_numerics};
  const auto question = answer::read_question(std::move(asked));
  if (!question) return outside(question.error());
  plan::SearchOptions search;
  search.world = &world.impl().world;
  search.keep = how.top;
  search.stop = &stop_flag();
  if (how.most_headroom) search.objective = plan::Objective::kHeadroom;
  if (how.progress)
    search.progress = [&how](const plan::Counts& counts) {
      how.progress("considered " + std::to_string(counts.considered) + " configurations");
    };
  auto found = plan::plan_for(*question, search);
  if (!found) return outside(found.error());
  const bool any = !found->best.empty();
  std::vector<std::string> warnings = learned_words(world, plan::first_job(*question));
  for (std::string& warning : answer::warnings_of(*found)) warnings.push_back(std::move(warning));
  return Answer(hold(any, std::move(warnings), *std::move(found), kJson, cli::plan_report));
}

Result<Answer> climb(const Job& job, const World& world, bool changes_numerics) {
  auto ladder = plan::climb(job.impl().request, world.impl().world, {.changes_numerics = changes_numerics});
  if (!ladder) return outside(ladder.error());
  const bool fits = ladder->fits || ladder->fits_already;
  return Answer(hold(fits, learned_words(world, job::resolve(job.impl().request)), *std::move(ladder), kJson,
                     cli::ladder_report));
}

Result<Answer> why(const std::vector<std::string>& logs, const World& world, const WhyOptions& options) {
  answer::WhyQuestion question{logs, {}, options.snapshot, options.gpu};
  if (!options.job.empty()) question.job = input_of(options.job, options.job_options);
  auto why = answer::why(question, world.impl().world);
  if (!why) return outside(why.error());
  const bool found = why->found();
  std::vector<std::string> words;
  if (why->known) words = world.impl().world.learned.words(why->known->job);
  return Answer(
      hold(found, std::move(words), *std::move(why), kJson,
           [](const answer::Why& one, const cli::Console& console) { return cli::why_text(one, false, console); }));
}

Result<Answer> score(const std::vector<std::string>& files, const World& world, const std::string& by) {
  auto score = answer::score({files, {}, by}, world.impl().world);
  if (!score) return outside(score.error());
  const bool any = score->scored() > 0;
  return Answer(hold(any, {}, *std::move(score), kJson, [](const answer::Score& one, const cli::Console& console) {
    return cli::score_table(one.files, console) + (one.by.empty() ? "" : cli::group_table(one.files, one.by, console));
  }));
}

Result<Answer> rl(const std::string& file, const Settings& settings, const World& world) {
  const auto draft = answer::read_rl({file, settings, {}});
  if (!draft) return outside(draft.error());
  auto evaluated = answer::evaluate_rl(*draft, world.impl().world, {});
  if (!evaluated) return outside(evaluated.error());
  const bool fits = evaluated->evaluation.fits();
  std::vector<std::string> warnings = draft->warnings;
  warnings.insert(warnings.end(), evaluated->evaluation.warnings.begin(), evaluated->evaluation.warnings.end());
  return Answer(hold(fits, std::move(warnings), *std::move(evaluated), kJson,
                     [](const answer::RlAnswer& one, const cli::Console& console) {
                       return cli::rl_report(one.run, one.evaluation, console);
                     }));
}

Result<Answer> plan_rl(const std::string& file, const Settings& settings, const World& world, std::size_t top,
                       const Progress& progress) {
  const auto draft = answer::read_rl({file, settings, {}});
  if (!draft) return outside(draft.error());
  auto plan = answer::plan_rl(*draft, world.impl().world, top, [&progress](const answer::HowFar& how_far) {
    if (progress) progress(how_far.words);
  });
  if (!plan) return outside(plan.error());
  const bool any = !plan->best.empty();
  return Answer(hold(any, draft->warnings, *std::move(plan), kJson, cli::rl_plan_report));
}

Result<Answer> observe_rl(const std::vector<std::string>& files, const Settings& settings) {
  auto observation = answer::observe_rl({files, settings, {}}, {});
  if (!observation) return outside(observation.error());
  const bool known = observation->verdict != rl::Verdict::kUnknown;
  std::vector<std::string> warnings = observation->warnings;
  return Answer(hold(known, std::move(warnings), *std::move(observation), kJson, cli::observation_text));
}

}  // namespace plimsoll::api
