// SPDX-License-Identifier: Apache-2.0
#include "answer/log_facts.h"

#include <algorithm>

#include "answer/log_rules.h"
#include "why/collector.h"
#include "why/diagnosis.h"

namespace plimsoll::answer {

namespace {

bool is_echo(why::SignalKind kind) {
  return kind == why::SignalKind::kPeerLost || kind == why::SignalKind::kCollectiveTimeout ||
         kind == why::SignalKind::kExit;
}

void add_figures(const why::Findings& findings, const why::OomNumbers& numbers, LogFacts& facts) {
  for (const why::StepSeries& series : findings.series)
    for (const why::StepPoint& point : series.points) {
      facts.allocated = std::max({facts.allocated, point.allocated, point.peak});
      facts.reserved = std::max({facts.reserved, point.reserved, point.used});
    }
  const std::int64_t allocated = numbers.allocated.value_or(0);
  facts.allocated = std::max(facts.allocated, allocated);
  facts.reserved =
      std::max(facts.reserved, numbers.reserved.value_or(allocated + numbers.reserved_unallocated.value_or(0)));
  facts.reserved = std::max(facts.reserved, facts.allocated);
}

}  // namespace

why::ReadLimits limits_for(std::size_t files) {
  constexpr std::size_t kDenseOfAll = 192U << 20;
  constexpr std::size_t kLeastDense = 32U << 10;
  constexpr std::size_t kFewFiles = 16;
  why::ReadLimits limits;
  if (files <= kFewFiles) return limits;
  limits.dense_bytes = std::clamp(kDenseOfAll / files, kLeastDense, limits.dense_bytes);
  return limits;
}

Result<LogFacts> read_log_facts(const std::string& path, std::size_t files) {
  why::Collector collector(catalogue_texts);
  PLIMSOLL_TRY_STATUS(why::read_log(path, collector, limits_for(files)));
  const why::Findings findings = collector.take();
  const why::Diagnosis diagnosis = why::diagnose(findings);
  LogFacts facts;
  if (!findings.files.empty() && findings.files.front().rank)
    facts.rank = findings.files.front().rank;
  else if (diagnosis.rank)
    facts.rank = diagnosis.rank;
  facts.steps = std::max<std::int64_t>(0, findings.last_step);
  add_figures(findings, diagnosis.numbers, facts);
  if (!diagnosis.failure) return facts;
  facts.cause = std::string(why::cause_name(diagnosis.cause));
  if (diagnosis.phase != why::Phase::kUnknown) facts.phase = std::string(why::phase_name(diagnosis.phase));
  facts.is_echo = diagnosis.root != nullptr && is_echo(diagnosis.root->signal.kind);
  facts.ran_out = diagnosis.resource == why::Resource::kDevice && diagnosis.numbers.request.has_value();
  if (facts.ran_out) facts.requested = *diagnosis.numbers.request;
  return facts;
}

bool echoes_another_rank(const std::string& message) {
  why::Collector collector(catalogue_texts);
  why::read_text("message", message + "\n", collector);
  const why::Findings findings = collector.take();
  const why::Diagnosis diagnosis = why::diagnose(findings);
  return diagnosis.failure && diagnosis.root != nullptr && is_echo(diagnosis.root->signal.kind);
}

}  // namespace plimsoll::answer
