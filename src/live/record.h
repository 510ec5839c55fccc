// SPDX-License-Identifier: Apache-2.0
// run.json: everything that is known of a run, in the format that `score` and `learn` read
// (src/truth/run_recording.cpp).
#pragma once

#include <string>
#include <vector>

#include "live/command.h"
#include "live/compare.h"

namespace plimsoll::live {

inline constexpr int kRunSchema = 1;

struct Run {
  std::string folder;
  std::string version;               // of this program
  std::vector<std::string> command;  // without secrets
  std::string started;               // 2026-11-15T23:50:00Z
  Ending ending;
  Most most;
  std::string nvml;              // "" or why there are no devices
  std::string hook;              // "on", "off", "left out", "not entered"
  std::vector<RankRun> ranks;    // of the last start
  std::vector<RankRun> earlier;  // of starts before it
  std::vector<RankComparison> rows;
  std::vector<std::string> differences;
  std::vector<std::string> problems;  // files that could not be written or read
  std::string gpu;                    // catalogue id of the job's GPU, "" without a job
};

[[nodiscard]] std::string run_json(const Run& run, const Prediction* prediction);

// Now, as `started` has it.
[[nodiscard]] std::string utc_now();

}  // namespace plimsoll::live
