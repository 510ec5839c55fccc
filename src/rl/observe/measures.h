// SPDX-License-Identifier: Apache-2.0
// What the readers gather and the classifier judges: sums, extremes and the lines they were found on. Of fixed size
// whatever the size of the input.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rl/choices.h"

namespace plimsoll::rl {

struct Place {
  std::uint32_t file = 0;
  std::int64_t line = 0;
};

// Values of one kind.
struct Tally {
  std::int64_t count = 0;
  double sum = 0;
  double maximum = 0;
  Place first;
  Place at_maximum;

  void add(double value, const Place& place);
  [[nodiscard]] double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

// A counter that only grows; each series (server, file) is followed on its own.
struct Growth {
  struct Series {
    double first = 0;
    double last = 0;
    Place place;  // where it last grew
    std::int64_t samples = 0;
  };
  std::map<std::string, Series> series;

  void add(const std::string& name, double value, const Place& place);
  // What was counted: a series seen once counts from zero.
  [[nodiscard]] double total() const;
  [[nodiscard]] std::optional<Place> place() const;
};

// One look at a server.
struct ServerSample {
  std::optional<double> usage;  // of the KV cache, 0 to 1
  std::optional<double> running;
  std::optional<double> waiting;
};

struct StartUpFailure {
  std::string text;  // the engine's line
  std::string fix;
  std::string key;  // canonical key to turn
  Place place;
};

struct Measures {
  // Shares of a step, 0 to 1; each value is one step.
  Tally trainer_wait;
  Tally rollout_paused;
  Tally weight_sync;
  Tally generation_phase;  // of a synchronous step
  Tally training_phase;
  Tally environment;  // of a lane's time, or of the step
  // Servers.
  Tally usage;
  Tally running;
  Tally waiting;
  Tally pressed;  // usage of samples above the threshold while requests wait
  Growth preemptions;
  Tally preempted;  // reported per interval, per step or one by one instead of as a counter
  // What servers said of themselves at start-up, the last time each: "available KV cache", ...
  std::map<std::string, std::pair<double, Place>, std::less<>> stated;
  std::vector<StartUpFailure> failures;
  // Samples.
  Growth stale;        // dropped for their age
  Tally stale_events;  // one each
  Tally pause_events;  // generation stopped for the trainer, one each
  Tally off_policy;    // weight updates that a sample lived through
  // Reading.
  std::vector<std::string> files;
  std::array<std::int64_t, 6> votes{};  // per Framework
  std::int64_t lines = 0;
  std::int64_t understood = 0;
  std::int64_t broken_lines = 0;
  Place first_broken;
  std::int64_t long_lines = 0;
  std::int64_t not_finite = 0;  // values that are NaN or infinite, which no average survives
  Place first_not_finite;

  void vote(Framework framework) { ++votes[static_cast<std::size_t>(framework)]; }
  void add_sample(const ServerSample& sample, const Place& place);
  void add_failure(StartUpFailure failure);
};

// Thresholds of facts rl-and-inference.md 8.
inline constexpr double kMuchWaiting = 0.1;
inline constexpr double kFullCache = 0.9;
inline constexpr double kRoomyCache = 0.6;

}  // namespace plimsoll::rl
