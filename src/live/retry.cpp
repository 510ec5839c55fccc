// SPDX-License-Identifier: Apache-2.0
#include "live/retry.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "live/apply.h"
#include "plan/ladder.h"

namespace plimsoll::live {

namespace {

// Beside what was missing: a run that has just failed is not started again to end within a hair of the limit.
constexpr double kMargin = 0.01;

}  // namespace

std::int64_t missing_bytes(const Run& run, const Prediction& prediction) {
  std::int64_t missing = 0;
  for (const RankRun& rank : run.ranks) {
    if (!rank.oom) continue;
    const auto stage = pipeline_rank(prediction.job, rank.rank, rank.world);
    const memory::RankAnswer* answer = stage ? answer_for(prediction, *stage) : nullptr;
    if (answer == nullptr) answer = &prediction.price.worst();
    const std::int64_t needed = rank.oom->total - rank.oom->free + rank.oom->requested;
    missing = std::max(missing, needed - answer->device_used);
  }
  return missing;
}

Result<Retry> plan_retry(const Run& run, const Prediction& prediction, const lever::World& world,
                         const std::vector<std::string>& words, const std::vector<std::string>& job_files) {
  const std::int64_t capacity = prediction.job.cluster.gpu.capacity;
  const std::int64_t missing = missing_bytes(run, prediction);
  const std::int64_t usable = capacity - missing - static_cast<std::int64_t>(kMargin * static_cast<double>(capacity));
  if (usable <= 0) return bad_input("the run needed more than twice what the job says: the job is another one");
  // The same job on a GPU that is smaller by what the prediction missed.
  const job::Request smaller = prediction.request.with("gpu_memory", std::to_string(usable));
  PLIMSOLL_TRY(ladder, plan::climb(smaller, world));
  if (ladder.fits_already)
    return bad_input("the corrected prediction says that it fits as it is: something else takes the memory",
                     "plimsoll watch --all shows who holds the device");
  if (!ladder.fits || ladder.steps.empty())
    return bad_input("no change that leaves what is learned alone makes it fit",
                     "plimsoll plan --from names those that change it");
  PLIMSOLL_TRY(after, predict(prediction.request.with(ladder.settings), world));
  PLIMSOLL_TRY(applied, apply(prediction.job, after.job, ladder.settings, words, job_files, run.folder));
  std::vector<std::string> labels;
  for (const plan::LadderStep& step : ladder.steps) labels.push_back(step.taken.change.label);
  Retry retry{std::move(applied.words), std::move(applied.environment), std::move(after), {}};
  retry.shown = fmt::format("plimsoll run: again, with {}{}\n", join(labels, " and "),
                            ladder.slower > 0 ? fmt::format(" (about {:.0f} % slower)", 100 * ladder.slower) : "");
  if (missing > 0)
    retry.shown += fmt::format("the run needed {} more than predicted; the change was chosen with that in mind\n",
                               format_bytes(missing));
  retry.shown +=
      fmt::format("predicted {} of {} on the worst rank\n",
                  format_bytes(retry.prediction.price.worst().device_used + missing), format_bytes(capacity));
  for (const std::string& line : applied.said) retry.shown += line + "\n";
  return retry;
}

}  // namespace plimsoll::live
