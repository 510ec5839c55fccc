// SPDX-License-Identifier: Apache-2.0
// The best way to use the GPUs of a run: how many train and how many serve, the size of a server, its lanes, the
// limit of staleness, the length of a bin, the trainer's own parallelism. Every combination is priced by the closed
// form; the best are simulated, and the simulation ranks them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "rl/evaluate.h"
#include "rl/read.h"

namespace plimsoll::rl {

struct PlanOptions {
  lever::World world;
  std::size_t keep = 5;
  std::size_t simulated = 24;  // of the best by the closed form
  SimulationOptions simulation = {.steps = 16, .warm_up = 6, .seed = 1, .most_events = 750'000};
  std::size_t moves = 40;                            // of the climb from the best, at most
  std::int64_t most_events = kBudget.loop_events;    // of all simulations; the climb ends there
  std::function<void(const std::string&)> progress;  // from the calling thread, after every round of simulations
};

struct Proposal {
  Run run;            // complete
  Settings settings;  // what was chosen, as keys and values
  Evaluation evaluation;
};

struct PlanCounts {
  std::size_t considered = 0;
  std::size_t refused = 0;  // does not divide, or a side cannot be described so
  std::size_t trainer_too_large = 0;
  std::size_t server_too_large = 0;
  std::size_t simulated = 0;
};

struct Plan {
  std::vector<Proposal> best;  // ranked by trained tokens/s
  PlanCounts counts;
  std::vector<std::pair<std::string, std::size_t>> refusals;  // reason and number, most frequent first
  bool trainer_splits_model = false;                          // its framework splits layers, stages and experts
  double ideal_inference_share = 0;                           // r / (r + g), unrounded: facts rl-and-inference.md 8
};

// `draft` is a run before complete(): what its file or flags gave stays, the rest is chosen.
[[nodiscard]] Result<Plan> plan(const Run& draft, const PlanOptions& options);

}  // namespace plimsoll::rl
