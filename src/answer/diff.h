// SPDX-License-Identifier: Apache-2.0
// Two things compared: the peaks of two recordings, origin by origin, or the answers for two jobs, knob by knob.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "answer/input.h"
#include "answer/recording.h"
#include "lever/price.h"
#include "replay/difference.h"

namespace plimsoll::answer {

// How much of something may grow before the answer is "no": "5%", "2GiB".
struct GrowthLimit {
  double share = -1;  // of the first; negative: not given
  std::int64_t bytes = -1;

  [[nodiscard]] bool exceeded(std::int64_t before, std::int64_t after) const;
};

struct RecordingDiff {
  Recording a;
  Recording b;
  replay::PeakDifference peaks;

  [[nodiscard]] bool within(const GrowthLimit& limit) const;
};

[[nodiscard]] Result<RecordingDiff> compare_recordings(const std::string& path_a, const std::string& path_b,
                                                       const RecordingConditions& conditions);
[[nodiscard]] std::string to_json(const RecordingDiff& diff, bool within_limit);

// One knob, or several that the framework accepts only together, on the way from the first job to the second.
struct KnobStep {
  struct Knob {
    std::string key;
    std::string before;
    std::string after;
  };
  std::vector<Knob> knobs;
  std::int64_t device_used = 0;  // of the worst rank once it is changed
  std::int64_t difference = 0;   // to the step before
  double seconds = 0;            // of a training step once it is changed
  double slower = 0;             // share of time more per token than the step before
};

struct JobDiff {
  std::string name_a;
  std::string name_b;
  memory::RankAnswer a;  // worst ranks
  memory::RankAnswer b;
  timing::StepTime time_a;
  timing::StepTime time_b;
  std::vector<KnobStep> steps;  // their differences sum to that of the jobs

  [[nodiscard]] double slower() const { return lever::slower(time_a, time_b).value_or(0); }
};

[[nodiscard]] Result<JobDiff> compare_jobs(const job::Request& a, const job::Request& b, const lever::World& world);
[[nodiscard]] std::string to_json(const JobDiff& diff, bool within_limit);

// Rows whose bytes differ.
[[nodiscard]] std::vector<replay::DifferenceRow> changed(const std::vector<replay::DifferenceRow>& rows);

}  // namespace plimsoll::answer
