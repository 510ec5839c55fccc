// SPDX-License-Identifier: Apache-2.0
#include "live/retry.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "lever/priced.h"
#include "live/apply.h"

namespace plimsoll::live {

namespace {

// Beside what was missing: a run that has just failed is not started again to end within a hair of the limit.
constexpr double kMargin = 0.01;
constexpr int kMostChanges = 4;

// Levers that need software which may not be there: a retry must not fail for another reason than memory.
bool needs_software(std::string_view id) {
  return id == "chunked-loss" || id == "flash-attention" || id == "cuda-graphs";
}

struct Candidate {
  job::Settings settings;
  std::vector<std::string> labels;
  double slower = 0;
  int reach = 0;
  std::int64_t device_used = 0;
  bool lossless = true;
};

using Names = std::vector<std::string>;  // of levers

job::Settings merged(job::Settings settings, const job::Settings& more) {
  for (const auto& setting : more) {
    std::erase_if(settings, [&setting](const auto& old) { return old.first == setting.first; });
    settings.push_back(setting);
  }
  return settings;
}

bool may_pull(const lever::Lever& lever, const Names& allowed) {
  if (!lever.lossless) return std::find(allowed.begin(), allowed.end(), lever.id) != allowed.end();
  return !needs_software(lever.id);
}

// Every single change on top of `base`, priced.
std::vector<Candidate> next_changes(const job::Request& request, const Candidate& base, const lever::World& world,
                                    const Names& allowed) {
  std::vector<Candidate> found;
  const job::Request from = request.with(base.settings);
  const auto job = job::resolve(from);
  const auto before = job ? lever::price(*job, world) : Result<lever::Price>{tl::make_unexpected(job.error())};
  if (!before) return found;
  std::vector<lever::Change> changes = lever::changes_of(*job, {.lossless = true, .science = !allowed.empty()});
  std::erase_if(changes, [&](const lever::Change& change) { return !may_pull(lever::lever_of(change), allowed); });
  for (const lever::PricedChange& priced : lever::price_changes(from, *job, *before, world, std::move(changes))) {
    Candidate one = base;
    one.settings = merged(base.settings, priced.change.settings);
    one.labels.push_back(priced.change.label);
    one.slower = (1 + base.slower) * (1 + priced.slower.value_or(0)) - 1;
    one.reach = std::max(base.reach, static_cast<int>(lever::lever_of(priced.change).reach));
    one.device_used = priced.device_used;
    one.lossless = base.lossless && lever::lever_of(priced.change).lossless;
    found.push_back(std::move(one));
  }
  return found;
}

// Those that fit, cheapest first: one change where one is enough, else more on top of what saves most.
std::vector<Candidate> that_fit(const job::Request& request, const lever::World& world, std::int64_t usable,
                                const Names& allowed) {
  Candidate base;
  for (int changes = 1; changes <= kMostChanges; ++changes) {
    std::vector<Candidate> all = next_changes(request, base, world, allowed);
    std::vector<Candidate> fitting;
    for (const Candidate& one : all)
      if (one.device_used <= usable) fitting.push_back(one);
    if (!fitting.empty()) {
      constexpr double kSame = 0.005;  // share of a step below which a prediction cannot tell two times apart
      std::stable_sort(fitting.begin(), fitting.end(), [](const Candidate& a, const Candidate& b) {
        return std::pair(std::floor(a.slower / kSame), a.reach) < std::pair(std::floor(b.slower / kSame), b.reach);
      });
      return fitting;
    }
    const auto least = std::min_element(
        all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.device_used < b.device_used; });
    if (least == all.end()) return {};
    base = *least;
  }
  return {};
}

Retry make_retry(const Candidate& candidate, Prediction after, Applied applied, std::int64_t missing,
                 std::int64_t capacity) {
  Retry retry{
      std::move(applied.words), std::move(applied.environment), std::move(applied.job_files), std::move(after), {}};
  retry.shown =
      fmt::format("plimsoll run: again, with {}{}\n", join(candidate.labels, " and "),
                  candidate.slower > 0 ? fmt::format(" (about {:.0f} % slower)", 100 * candidate.slower) : "");
  if (!candidate.lossless) retry.shown += "this changes what is learned; --allow named it\n";
  if (missing > 0)
    retry.shown += fmt::format("the run needed {} more than predicted; the change was chosen with that in mind\n",
                               format_bytes(missing));
  retry.shown +=
      fmt::format("predicted {} of {} on the worst rank\n",
                  format_bytes(retry.prediction.price.worst().device_used + missing), format_bytes(capacity));
  for (const std::string& line : applied.said) retry.shown += line + "\n";
  return retry;
}

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

const std::vector<std::string>& numeric_levers() {
  static const Names names = [] {
    Names found;
    for (const lever::Lever& lever : lever::levers())
      if (!lever.lossless) found.emplace_back(lever.id);
    return found;
  }();
  return names;
}

Result<Retry> plan_retry(const Run& run, const Prediction& prediction, const lever::World& world,
                         const std::vector<std::string>& words, const std::vector<std::string>& job_files,
                         const std::vector<std::string>& allowed) {
  std::int64_t capacity = prediction.job.cluster.gpu.capacity;
  for (const RankRun& rank : run.ranks)  // the device may be smaller than the job says
    if (rank.oom && rank.oom->total > 0) capacity = std::min(capacity, rank.oom->total);
  const std::int64_t missing = missing_bytes(run, prediction);
  const std::int64_t usable = capacity - missing - static_cast<std::int64_t>(kMargin * static_cast<double>(capacity));
  if (usable <= 0) return bad_input("the run needed more than twice what the job says: the job is another one");
  if (prediction.price.worst().device_used <= usable)
    return bad_input("the corrected prediction says that it fits as it is: something else takes the memory",
                     "plimsoll watch --all shows who holds the device");
  std::optional<Error> refused;
  const auto first_that_can_be_set = [&](const std::vector<Candidate>& candidates) -> std::optional<Retry> {
    for (const Candidate& candidate : candidates) {
      auto after = predict(prediction.request.with(candidate.settings), world);
      auto applied = after ? apply(prediction.job, after->job, candidate.settings, words, job_files, run.folder)
                           : Result<Applied>{tl::make_unexpected(after.error())};
      if (applied) return make_retry(candidate, *std::move(after), *std::move(applied), missing, capacity);
      if (!refused) refused = Error{applied.error()}.with_context(join(candidate.labels, " and "));
    }
    return std::nullopt;
  };
  if (auto retry = first_that_can_be_set(that_fit(prediction.request, world, usable, {}))) return *std::move(retry);
  if (!allowed.empty())
    if (auto retry = first_that_can_be_set(that_fit(prediction.request, world, usable, allowed)))
      return *std::move(retry);
  const std::string hint = fmt::format("--allow names changes of what is learned: {}", join(numeric_levers(), ", "));
  if (refused) {
    refused->hint = hint;
    return tl::make_unexpected(*std::move(refused));
  }
  return bad_input(allowed.empty() ? "no change that leaves what is learned alone makes it fit"
                                   : "no change that leaves what is learned alone or is allowed makes it fit",
                   hint);
}

}  // namespace plimsoll::live
