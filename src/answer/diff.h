// SPDX-License-Identifier: Apache-2.0
// Two things compared: the peaks of two recordings, origin by origin, the answers for two jobs, knob by knob, or two
// steps of which one was captured, tensor by tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/input.h"
#include "answer/recording.h"
#include "lever/price.h"
#include "memory/tape_difference.h"
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

// A tensor as people find it: in a capture the operation and the module that made it, in a job what it is and where.
struct NamedTensor {
  std::string made_by;  // "silu", or "activation output"
  std::string in;       // "model.layers.3.mlp", or "activation function of layer 3"
  std::string phase;
  std::int64_t bytes = 0;
};

// Tensors without one of their size at the other peak, alike ones together: numbers of layers are left out.
struct TensorGroup {
  std::string made_by;
  std::string in;
  std::int64_t count_a = 0;
  std::int64_t count_b = 0;
  std::int64_t bytes_a = 0;
  std::int64_t bytes_b = 0;

  [[nodiscard]] std::int64_t difference() const { return bytes_b - bytes_a; }
};

// A captured step against another one, or against the job that describes it.
struct StepDiff {
  struct Side {
    std::string name;
    memory::RankAnswer rank;
    std::string captured_with;  // "PyTorch 2.11.0"; empty for a job
    std::vector<std::string> warnings;
  };
  Side a;
  Side b;
  std::vector<TensorGroup> groups;  // largest difference first; they sum to `difference`
  std::int64_t difference = 0;      // of the sums of tensors at both peaks
  // Requests of the second step that the other does not make in that phase.
  struct Requests {
    std::size_t alone = 0;
    std::optional<NamedTensor> first;
  };
  Requests requested_by_a;
  Requests requested_by_b;
  std::size_t same_requests = 0;
  std::int64_t least = 0;  // requests that are smaller were not looked at
};

struct StepDiffQuestion {
  std::string path_a;  // a capture, or a job's file
  std::string path_b;
  std::string gpu;        // of captures; a job has its own
  std::string allocator;  // of captures
  Settings settings;      // keys of the job
};
// At least one of them is a capture.
[[nodiscard]] Result<StepDiff> compare_steps(const StepDiffQuestion& question);
[[nodiscard]] std::string to_json(const StepDiff& diff, bool within_limit);

// Rows whose bytes differ.
[[nodiscard]] std::vector<replay::DifferenceRow> changed(const std::vector<replay::DifferenceRow>& rows);

}  // namespace plimsoll::answer
