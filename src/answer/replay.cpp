// SPDX-License-Identifier: Apache-2.0
#include "answer/replay.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "replay/advice.h"

namespace plimsoll::answer {

namespace {

void add_advice(std::vector<std::string>& warnings, const std::vector<std::string>& advice) {
  for (const std::string& text : advice)
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
}

// Figures under other settings or limits. Limits that change nothing leave the exact replay's figures.
Status replay_otherwise(const ReplayQuestion& question, const Recording& recording, Replay& answer) {
  const bool sets = question.setting.has_value();
  if (!sets && !question.limit_is_given) return {};
  if (sets) answer.setting = *question.setting;
  PLIMSOLL_TRY(conditions, replay::conditions_of(answer.setting, recording.surroundings));
  if (!sets) conditions.settings = recording.recorded.settings;
  replay::Run run = replay::run(*recording.history, conditions);
  const allocator::Stats& before = recording.run.stats;
  const bool same = run.oom.has_value() == recording.run.oom.has_value() && run.stats.retries == before.retries &&
                    run.stats.peak_reserved == before.peak_reserved;
  answer.is_what_if = sets || !same;
  if (!answer.is_what_if && recording.exact.exact()) return {};
  const std::uint32_t op = run.oom ? run.oom->op : run.peak_reserved_op;
  answer.pinned = replay::find_pinned(replay::state_after(*recording.history, conditions, op), conditions.settings);
  answer.run = std::move(run);
  const bool limit_is_given = question.limit_is_given || conditions.settings.fraction;
  answer.depends_on_limit = recording.inferred && !limit_is_given && !answer.run.oom &&
                            answer.run.stats.peak_reserved > recording.inferred->low;
  if (sets) add_advice(answer.warnings, replay::advise(conditions.settings, answer.largest_request));
  return {};
}

Status replay_many(const ReplayQuestion& question, const Recording& recording, const Progress& progress,
                   Replay& answer) {
  if (question.tune) {
    PLIMSOLL_TRY(tuned,
                 replay::tune(*recording.history, recording.surroundings, [&](std::size_t tried, std::size_t of) {
                   if (of > 0)
                     tell(progress, fmt::format("tried {} of {} settings", tried, of), part_of(tried, of));
                   else
                     tell(progress, fmt::format("tried {} settings", tried));
                 }));
    answer.what_ifs = tuned.best;
    answer.tuned = std::move(tuned);
    return {};
  }
  if (!question.what_if) return {};
  std::vector<std::string> settings = replay::sensible_settings(recording.surroundings);
  if (std::find(settings.begin(), settings.end(), recording.recorded.text) == settings.end())
    settings.push_back(recording.recorded.text);
  PLIMSOLL_TRY(answers, replay::replay_settings(*recording.history, settings, recording.surroundings));
  replay::rank(answers);
  answer.what_ifs = std::move(answers);
  return {};
}

}  // namespace

std::string joined_settings(std::vector<std::string> given) {
  std::erase_if(given, [](const std::string& text) { return text.empty() || text == "default"; });
  return join(given, ",");
}

std::string environment_line(const std::string& setting, allocator::Version torch) {
  const char* name = torch >= allocator::Version{2, 9} ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
  return setting.empty() ? fmt::format("unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF")
                         : fmt::format("export {}={}", name, setting);
}

Result<Replay> replay_recording(const Recording& recording, const ReplayQuestion& question, const Progress& progress) {
  Replay answer;
  answer.recording = &recording;
  answer.setting = recording.recorded.text;
  answer.run = recording.run;
  answer.warnings = recording.warnings;
  if (!recording.history) {
    if (recording.snapshot->segments.empty())
      return bad_input(fmt::format("{} holds neither a history nor segments", recording.path));
    answer.pinned = replay::find_pinned(recording.state_after(0), recording.recorded.settings);
    return answer;
  }
  answer.largest_request = replay::largest_request(*recording.history);
  // A fraction that the history shows is there, though the snapshot does not say it.
  allocator::Settings recorded = recording.recorded.settings;
  if (recording.inferred && recording.inferred->fraction && !recorded.fraction) recorded.fraction = 0.5;
  add_advice(answer.warnings, replay::advise(recorded, answer.largest_request));
  PLIMSOLL_TRY_STATUS(replay_otherwise(question, recording, answer));
  if (answer.pinned.reserved == 0)
    answer.pinned =
        replay::find_pinned(recording.state_after(answer.run.oom ? answer.run.oom->op : answer.run.peak_reserved_op),
                            recording.recorded.settings);
  add_advice(answer.warnings, replay::advise(answer.run));
  if (question.peak || question.leaks) {
    const replay::Attribution attribution(*recording.history);
    if (question.peak) answer.peak = replay::report_peak(*recording.history, attribution, answer.run.peak_allocated_op);
    if (question.leaks) answer.leaks = replay::find_leaks(*recording.history, attribution);
  }
  PLIMSOLL_TRY_STATUS(replay_many(question, recording, progress, answer));
  return answer;
}

}  // namespace plimsoll::answer
