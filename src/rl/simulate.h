// SPDX-License-Identifier: Apache-2.0
// The loop run in time. Between two events of a server (a sample ends, the cache is full, weights change) its batch is
// constant, so its decode steps are taken in one stride:
//
//   server   |--- 218 steps, batch 256 ---|e|-- 41 steps, 256 --|e|...   e: a sample ends, the next one starts
//   trainer  |------ batch 7 ------|sync|---- batch 8 ----|sync|..wait..|
//
// Every sample costs a few events, so a step of two thousand samples takes about a millisecond.
// The same loop and seed give the same answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rl/loop.h"

namespace plimsoll::rl {

struct SimulationOptions {
  std::int64_t steps = 32;   // trainer steps that count
  std::int64_t warm_up = 8;  // before them; the limit's batches come on top
  std::uint64_t seed = 1;
  // Beyond it fewer steps are measured, and a loop that does not even reach kFewestSteps is left to the closed form.
  std::int64_t most_events = 6'000'000;
  bool timeline = false;
};

enum class SpanKind : std::uint8_t { kTrain, kSync, kPaused };
// kTrain and kSync are the trainer's; kPaused: servers may start nothing because they are too far ahead.
struct Span {
  SpanKind kind = SpanKind::kTrain;
  double begin = 0;
  double end = 0;
};
// Requests that run on all servers from this moment on.
struct Load {
  double time = 0;
  std::int64_t running = 0;
};

inline constexpr std::int64_t kFewestSteps = 4;  // an average over fewer says nothing

struct Simulation {
  std::int64_t steps = 0;   // that were measured
  std::int64_t events = 0;  // that were simulated
  double begin = 0;         // of what was measured
  double end = 0;
  double period = 0;                // seconds of a trainer step
  double tokens_per_second = 0;     // trained: prompts and completions of kept samples
  double generated_per_second = 0;  // completion tokens, dropped ones too
  double trainer_idle = 0;          // share of time without a batch
  double trainer_sync = 0;
  double server_idle = 0;      // share of time in which a server decodes nothing
  double server_paused = 0;    // of it: stands still for an update
  double dispatch_paused = 0;  // share of time in which nothing new may start
  double mean_running = 0;     // requests of a server
  double kv_usage = 0;         // mean share of the cache
  double kv_peak = 0;
  double preemptions_per_step = 0;
  double recomputed_share = 0;  // of prefilled tokens: those of preempted requests
  double late_share = 0;        // of started groups: discarded as too late
  double cancelled_share = 0;   // and cancelled as too old
  double zero_share = 0;
  double mean_latency = 0;        // seconds from a group's start to its last reward
  std::vector<double> staleness;  // share of trained groups by trainer steps between their weights and the trainer's
  double mean_staleness = 0;
  std::string too_long;  // why it was given up; the figures are then zero
  std::string stuck;     // why no step comes to its end; the figures are then zero
  std::vector<Span> spans;
  std::vector<Load> load;
};

[[nodiscard]] Simulation simulate(const Loop& loop, const SimulationOptions& options);

}  // namespace plimsoll::rl
