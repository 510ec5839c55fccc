// SPDX-License-Identifier: Apache-2.0
// A recorded history replayed: under its own settings, under others, who holds memory, what grows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/progress.h"
#include "answer/recording.h"
#include "replay/event_text.h"
#include "replay/leaks.h"
#include "replay/pinned.h"

namespace plimsoll::answer {

struct ReplayQuestion {
  std::optional<std::string> setting;  // replay under this instead; "" is PyTorch's default
  bool limit_is_given = false;         // a GPU or a capacity was named
  bool what_if = false;                // the sensible settings, best first
  bool tune = false;                   // search the settings
  bool peak = false;                   // who holds memory at the peak
  bool leaks = false;                  // what grows from step to step

  // What only a history can answer.
  [[nodiscard]] bool needs_history() const { return setting || what_if || tune || peak || leaks; }
};

struct Replay {
  const Recording* recording = nullptr;
  std::string setting;  // what the figures are of
  replay::Run run;
  bool is_what_if = false;
  // The recorded limit is known to an interval only, and what this run needs lies inside it.
  bool depends_on_limit = false;
  std::vector<replay::WhatIf> what_ifs;  // of --set given more than once, --what-if or --tune; ranked
  std::optional<replay::Tuned> tuned;
  replay::Pinned pinned;  // when memory ran out, or when most was reserved
  std::int64_t largest_request = 0;
  std::optional<replay::PeakReport> peak;
  std::optional<replay::LeakReport> leaks;
  std::vector<std::string> warnings;
};

// The recording must outlive the answer. One without a history shows the state at its end.
[[nodiscard]] Result<Replay> replay_recording(const Recording& recording, const ReplayQuestion& question,
                                              const Progress& progress = {});
[[nodiscard]] std::string to_json(const Replay& replay);
[[nodiscard]] std::string to_json(const std::vector<snapshot::MemoryStats>& counters);

// What the peak reserved is above the peak allocated, as a share; nothing where they are not both known.
[[nodiscard]] std::optional<double> fragmentation(const snapshot::MemoryStats& stats);

// Several settings add up; "default" stands for none.
[[nodiscard]] std::string joined_settings(std::vector<std::string> given);

// "export PYTORCH_CUDA_ALLOC_CONF=..." as the version reads it.
[[nodiscard]] std::string environment_line(const std::string& setting, allocator::Version torch);

}  // namespace plimsoll::answer
