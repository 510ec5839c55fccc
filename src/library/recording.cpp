// SPDX-License-Identifier: Apache-2.0
#include "answer/recording.h"

#include "answer/replay.h"
#include "cli/replay_report.h"
#include "library/impl.h"

namespace plimsoll::api {

struct Recording::Impl {
  answer::Recording recording;
  bool limit_is_given = false;
};

Result<Recording> Recording::open(const std::string& path, const RecordingOptions& options) {
  answer::RecordingConditions conditions;
  conditions.device = options.device;
  conditions.gpu = options.gpu;
  conditions.capacity = options.capacity;
  conditions.fraction = options.fraction;
  if (!options.torch.empty()) {
    const auto torch = allocator::parse_version(options.torch);
    if (!torch) return outside(torch.error());
    conditions.torch = *torch;
  }
  auto file = answer::read_recording_file(path);
  if (!file) return outside(file.error());
  if (!file->snapshot) return Error{3, path + " has counters only; wanted a snapshot", {}};
  auto recording = answer::load_recording(path, std::move(file->snapshot), conditions);
  if (!recording) return outside(recording.error());
  return Recording(
      std::make_shared<const Impl>(Impl{*std::move(recording), !options.gpu.empty() || options.capacity.has_value()}));
}

bool Recording::has_history() const { return impl_->recording.history.has_value(); }

Result<Answer> Recording::replay(const ReplayOptions& options) const {
  answer::ReplayQuestion question;
  question.setting = options.setting;
  question.limit_is_given = impl_->limit_is_given;
  question.what_if = options.what_if;
  question.tune = options.tune;
  question.peak = options.peak;
  question.leaks = options.leaks;
  if (question.needs_history() && !has_history())
    return Error{3, impl_->recording.path + " has no history to replay",
                 "record one with torch.cuda.memory._record_memory_history()"};
  const auto words = [&options](const answer::HowFar& how_far) {
    if (options.progress) options.progress(how_far.words);
  };
  auto replay = answer::replay_recording(impl_->recording, question, words);
  if (!replay) return outside(replay.error());
  const bool suffices = !replay->run.oom;
  std::vector<std::string> warnings = replay->warnings;
  // The answer points into the recording: it keeps it alive.
  return Answer(hold(
      suffices, std::move(warnings), *std::move(replay), [](const answer::Replay& one) { return answer::to_json(one); },
      [keep = impl_](const answer::Replay& one, const cli::Console& console) {
        return cli::replay_report(one, console);
      }));
}

}  // namespace plimsoll::api
