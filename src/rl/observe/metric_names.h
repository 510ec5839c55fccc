// SPDX-License-Identifier: Apache-2.0
// What the metrics of each framework and engine mean. A name is looked up as it stands, then without its first
// segments ("train/timing_s/gen" is timing_s/gen).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rl/choices.h"
#include "rl/observe/measures.h"

namespace plimsoll::rl {

enum class Meaning : std::uint8_t {
  kStep,          // seconds of a step
  kWait,          // seconds in which the trainer waits for samples
  kWaitShare,     // the same as a share
  kPaused,        // seconds in which generation may not start anything
  kPausedShare,   // the same as a share
  kSync,          // seconds of weight synchronisation
  kGeneration,    // seconds of generation
  kTrain,         // seconds in which the trainer works; several add up
  kReward,        // seconds of rewards in a step
  kLaneGenerate,  // seconds of a sample's generation
  kLaneTools,     // seconds of its tools and environment
  kUsage,         // share of the KV cache
  kRunning,       // requests
  kWaiting,
  kPreemptions,  // a counter
  kPreempted,    // in this step
  kStale,        // a counter of dropped samples
  kOffPolicy,    // weight updates
};

struct MetricName {
  std::string_view name;
  Meaning meaning;
  std::optional<Framework> framework;  // whose name it is
};

[[nodiscard]] const MetricName* find_metric(std::string_view name);

// What one line says of one step.
struct StepValues {
  std::optional<double> step, wait, wait_share, paused, paused_share, sync, generation, train, reward, lane_generate,
      lane_tools;
  ServerSample server;
  bool any = false;

  void set(Meaning meaning, double value);
};

// Adds what the line says; counters are followed under `series`.
void add_metric(const MetricName& metric, double value, const std::string& series, const Place& place, StepValues& step,
                Measures& measures);
// Turns seconds into shares of the step.
void add_step(const StepValues& step, const Place& place, Measures& measures);

}  // namespace plimsoll::rl
