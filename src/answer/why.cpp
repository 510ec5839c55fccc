// SPDX-License-Identifier: Apache-2.0
#include "answer/why.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/log_facts.h"
#include "answer/log_rules.h"
#include "answer/settle.h"
#include "answer/why_snapshot.h"
#include "base/bytes.h"
#include "base/usage.h"
#include "cluster/cluster.h"
#include "why/read.h"

namespace plimsoll::answer {

namespace {

Result<why::Findings> read_all(const std::vector<std::string>& operands, const Progress& progress) {
  PLIMSOLL_TRY(paths, why::log_files(operands));
  why::Collector collector(catalogue_texts);
  std::int64_t before = 0;
  bool any = false;
  std::size_t whole = 0;  // files that are read
  for (const std::string& path : paths) {
    std::int64_t here = 0;
    const auto report = [&](std::int64_t bytes) {
      here = bytes;
      std::optional<double> share;
      if (paths.size() > 1) share = part_of(whole, paths.size());
      tell(progress, fmt::format("read {}", format_bytes(before + bytes)), share);
    };
    PLIMSOLL_TRY_STATUS(why::read_log(path, collector, limits_for(paths.size()), report));
    before += here;
    ++whole;
  }
  why::Findings findings = collector.take();
  for (const why::LogFile& file : findings.files) any = any || file.bytes > 0;
  if (!any)
    return bad_input(paths.size() == 1 ? fmt::format("{} is empty", findings.files.front().name) : "all logs are empty",
                     "standard error often goes to another file");
  return findings;
}

// The job that is given or that the log shows; a log that shows one that cannot be priced says so.
Result<std::optional<KnownJob>> find_job(const WhyQuestion& question, const lever::World& world, Why& answer) {
  if (question.job) {
    PLIMSOLL_TRY(job, read_known_job(*question.job, world));
    return std::optional(std::move(job));
  }
  Recovered recovered = recover_job(answer.findings, answer.diagnosis, question.gpu, world);
  if (!recovered.problem.empty()) answer.diagnosis.notes.push_back(recovered.problem);
  return std::move(recovered.job);
}

// Only a run that ran out of the device's memory has used more than a job that fits.
const char* verdict_beside(const why::Diagnosis& diagnosis, bool fits) {
  if (!fits) return "which does not fit";
  return diagnosis.resource == why::Resource::kDevice ? "which should fit: the run used more than the job says"
                                                      : "which should fit";
}

}  // namespace

bool Why::found() const { return diagnosis.cause != why::Cause::kNotMemory && diagnosis.cause != why::Cause::kUnknown; }

Result<Why> why(const WhyQuestion& question, const lever::World& world, const Progress& progress) {
  if (std::count(question.logs.begin(), question.logs.end(), "-") > 1)
    return usage_error("standard input was named twice");
  if (!question.gpu.empty()) {
    PLIMSOLL_TRY(found, cluster::find_gpu(question.gpu));
    static_cast<void>(found);
  }
  PLIMSOLL_TRY(findings, read_all(question.logs, progress));
  Why answer;
  answer.findings = std::move(findings);
  answer.diagnosis = why::diagnose(answer.findings);
  PLIMSOLL_TRY(known, find_job(question, world, answer));
  if (known) settle_by_job(*known, answer.diagnosis);
  std::vector<std::string>& notes = answer.diagnosis.notes;
  bool history_is_known = false;
  if (!question.snapshot.empty()) {
    PLIMSOLL_TRY(evidence, read_snapshot_evidence(question.snapshot));
    settle_by_snapshot(evidence, answer.diagnosis);
    history_is_known = evidence.steps > 0;
    const std::vector<std::string> added = notes_of(evidence, answer.diagnosis);
    notes.insert(notes.begin(), added.begin(), added.end());
  }
  answer.fixes = why::fixes_for(answer.diagnosis, answer.findings);
  if (history_is_known) std::erase_if(answer.fixes, [](const why::Fix& fix) { return fix.id == "record-history"; });
  if (known) {
    price_fixes(*known, answer.diagnosis, answer.fixes);
    const memory::RankAnswer& worst = known->answer.ranks[known->answer.worst];
    notes.insert(notes.begin(), fmt::format("plimsoll fit on {}: {} of {} on the worst rank, {}", known->origin,
                                            format_bytes(worst.device_used), format_bytes(worst.capacity),
                                            verdict_beside(answer.diagnosis, known->answer.fits)));
    answer.figures = reconcile(*known, answer.findings);
    const std::vector<std::string> told = sentences_of(answer.figures);
    notes.insert(notes.begin() + 1, told.begin(), told.end());
  }
  answer.ranks = why::ranks_of(answer.findings, answer.diagnosis);
  answer.known = std::move(known);
  return answer;
}

}  // namespace plimsoll::answer
