// SPDX-License-Identifier: Apache-2.0
#include "answer/reconcile.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/ranks.h"

namespace plimsoll::answer {

namespace {

// Which pipeline stage a rank runs: stages are outermost unless the job says that data-parallel copies are.
std::int64_t stage_of(const job::Job& job, std::optional<int> rank) {
  const std::int64_t stages = std::max<std::int64_t>(1, job.parallel.pipeline);
  const std::int64_t gpus = std::max(stages, job.cluster.gpus);
  if (!rank || stages == 1) return 0;
  const std::int64_t of_a_stage =
      job.parallel.dp_outermost ? std::max<std::int64_t>(1, job.parallel.tensor * job.parallel.context) : gpus / stages;
  return *rank / of_a_stage % stages;
}

enum class Verdict : std::uint8_t { kMore, kAgrees, kLess };

Verdict verdict_of(const RankFigures& one) {
  if (one.measured > one.predicted + one.spread) return Verdict::kMore;
  return one.measured < one.predicted - one.spread ? Verdict::kLess : Verdict::kAgrees;
}

// The device was full before the job's peak was reached, as the prediction says that it must be.
bool filled_on_the_way(const RankFigures& one) {
  return one.at_failure && one.predicted > one.capacity && one.measured * 10 >= one.capacity * 9;
}

std::string clause_of(const RankFigures& one) {
  const std::string measured = format_bytes(one.measured);
  const std::string predicted = format_bytes(one.predicted);
  const std::string more = format_bytes(std::abs(one.measured - one.predicted));
  if (filled_on_the_way(one))
    return fmt::format("{} alive or asked for when it failed, on the way to the job's {}, which no such device holds",
                       measured, predicted);
  switch (verdict_of(one)) {
    case Verdict::kMore:
      return one.at_failure
                 ? fmt::format(
                       "{} alive or asked for when it failed, {} more than the job's {}: it holds what the job "
                       "does not say",
                       measured, more, predicted)
                 : fmt::format("{} at most in its steps, {} more than the job's {}", measured, more, predicted);
    case Verdict::kAgrees:
      return fmt::format("{} {}, the job says {}", measured,
                         one.at_failure ? "alive or asked for when it failed" : "at most in its steps", predicted);
    case Verdict::kLess:
      return one.at_failure
                 ? fmt::format(
                       "failed at {}, {} before the job's peak of {}: the device held something else, or a "
                       "limit is in force",
                       measured, more, predicted)
                 : fmt::format("{} at most in its steps, {} less than the job's {}", measured, more, predicted);
  }
  return {};
}

}  // namespace

std::vector<RankFigures> reconcile(const KnownJob& known, const why::Findings& findings) {
  if (known.answer.ranks.empty() || known.answer.peak_by_stage.empty()) return {};
  const memory::RankAnswer& worst = known.answer.ranks[known.answer.worst];
  std::map<int, RankFigures> by_rank;  // -1: not numbered
  const auto slot = [&](std::optional<int> rank) -> RankFigures& {
    RankFigures& one = by_rank[rank.value_or(-1)];
    if (one.predicted > 0) return one;
    one.rank = rank;
    one.stage = std::min<std::int64_t>(stage_of(known.job, rank),
                                       static_cast<std::int64_t>(known.answer.peak_by_stage.size()) - 1);
    one.predicted = known.answer.peak_by_stage[static_cast<std::size_t>(one.stage)];
    one.spread = worst.spread.allocated;
    one.capacity = worst.capacity;
    return one;
  };
  for (const why::StepSeries& series : findings.series)
    for (const why::StepPoint& point : series.points) {
      const std::int64_t here = std::max(point.allocated, point.peak);
      if (here == 0) continue;
      RankFigures& one = slot(series.rank);
      one.measured = std::max(one.measured, here);
    }
  for (const why::Event& event : findings.events) {
    if (event.signal.kind != why::SignalKind::kDeviceOom || !event.signal.oom.allocated) continue;
    RankFigures& one = slot(event.rank);
    const std::int64_t here = *event.signal.oom.allocated + event.signal.oom.request.value_or(0);
    if (one.at_failure && here <= one.measured) continue;
    one.at_failure = true;
    one.measured = here;
  }
  std::vector<RankFigures> figures;
  for (auto& [rank, one] : by_rank)
    if (one.measured > 0) {
      one.says = clause_of(one);
      figures.push_back(one);
    }
  std::stable_sort(figures.begin(), figures.end(),
                   [](const RankFigures& a, const RankFigures& b) { return a.at_failure && !b.at_failure; });
  return figures;
}

std::vector<std::string> sentences_of(const std::vector<RankFigures>& figures) {
  constexpr std::size_t kMostSingle = 3;
  std::vector<std::string> sentences;
  std::vector<int> agreeing;
  std::size_t untold = 0;
  for (const RankFigures& one : figures) {
    if (!one.rank) {
      sentences.push_back("tensors: " + one.says);
    } else if (verdict_of(one) == Verdict::kAgrees && !one.at_failure) {
      agreeing.push_back(*one.rank);
    } else if (sentences.size() < kMostSingle) {
      sentences.push_back(fmt::format("tensors of rank {}{}: {}", *one.rank,
                                      one.stage > 0 ? fmt::format(" (stage {})", one.stage) : "", one.says));
    } else {
      ++untold;
    }
  }
  if (untold > 0) sentences.push_back(fmt::format("{} more ranks were compared: --json lists them", untold));
  if (!agreeing.empty())
    sentences.push_back(fmt::format("{} {} {} what the job says", agreeing.size() == 1 ? "rank" : "ranks",
                                    why::rank_list(agreeing), agreeing.size() == 1 ? "holds" : "hold"));
  return sentences;
}

}  // namespace plimsoll::answer
