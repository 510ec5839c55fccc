// SPDX-License-Identifier: Apache-2.0
// The whole answer for one run: do both sides fit, how fast does it go, what bounds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inference/memory.h"
#include "rl/balance.h"
#include "rl/run.h"
#include "rl/simulate.h"
#include "rl/sync.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

// One GPU that holds both sides: what is on it while the one or the other works.
struct SharedPhase {
  std::string name;  // "training", "generation"
  std::int64_t bytes = 0;
  std::string made_of;
  bool fits = false;
};

struct Evaluation {
  inference::ServerMemory server;
  TrainerMemory memory;
  TrainerTime time;
  SyncTime sync;
  std::vector<SharedPhase> phases;  // colocated only
  std::shared_ptr<const Loop> loop;
  Balance balance;
  Simulation simulation;
  Limit limit = Limit::kRollout;      // what bounds the run, by the simulation
  std::vector<std::string> evidence;  // why, and what to turn
  std::vector<std::string> problems;  // why it does not run; empty: it does
  std::vector<std::string> warnings;

  [[nodiscard]] bool fits() const { return problems.empty(); }
  [[nodiscard]] double period() const { return simulation.period > 0 ? simulation.period : balance.period; }
  [[nodiscard]] double tokens_per_second() const {
    return simulation.period > 0 ? simulation.tokens_per_second : balance.tokens_per_second;
  }
};

struct EvaluationOptions {
  lever::World world;
  SimulationOptions simulation;
  bool simulates = true;
  bool walks_memory = true;  // false: the trainer's memory is not answered, and does not count
};

[[nodiscard]] Result<Evaluation> evaluate(const Run& run, const EvaluationOptions& options);

// The server as it stands on its GPU: what a colocated trainer holds beside it, and the links that its placement
// leaves to tensor parallelism.
[[nodiscard]] inference::Server placed_server(const Run& run, std::int64_t held_by_trainer);

// The rates and rules of a run; the server must have a cache.
[[nodiscard]] Loop make_loop(const Run& run, const inference::ServerMemory& server, const TrainerTime& time,
                             const SyncTime& sync);

// The trainer's part of it alone.
void set_trainer(Loop& loop, const TrainerTime& time, const SyncTime& sync);

// What bounds the run (facts rl-and-inference.md 8), with its evidence.
void classify(const Run& run, Evaluation& evaluation);

}  // namespace plimsoll::rl
