// SPDX-License-Identifier: Apache-2.0
// The fastest way to train on a given number of GPUs that surely fits, as `plan` answers it for the run's trainer: its
// batch is filled up with copies, what lies beside a step counts, and nothing is chosen that the framework of the run
// cannot be told.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lever/lever.h"
#include "plan/question.h"
#include "rl/read.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

struct TrainerChoice {
  Settings settings;  // of the trainer's job, and of the weights' way to the servers where that makes room
  job::Job job;
  TrainerTime time;
  bool stages = false;  // the gathered weights have to go through the host
};

// How thoroughly a trainer is looked for: few values of each knob, or all that `plan` tries.
enum class Look : std::uint8_t { kCoarse, kWhole };

// What `plan` is asked for the trainer of a run on `gpus` GPUs; `packed` is its batch. `run` must outlive it.
[[nodiscard]] Result<plan::Question> trainer_question(const Run& run, std::int64_t gpus, const Packed& packed,
                                                      Look look = Look::kWhole);

// Whether settings of the trainer can be given to it through the configuration of the run's framework.
class Sayable {
 public:
  explicit Sayable(const Run& run) : run_(run) {}
  [[nodiscard]] bool operator()(const Settings& settings);

 private:
  const Run& run_;
  std::map<Settings, bool> known_;
};

// The levers of the trainer's job that the run can pull: in words of the run, without what follows from it.
[[nodiscard]] std::vector<lever::Change> trainer_changes(const Run& run);

// `run` is complete for some split. Nothing where no way fits; `counts` is added to.
[[nodiscard]] std::optional<TrainerChoice> choose_trainer(const Run& run, std::int64_t gpus, const Packed& packed,
                                                          const lever::World& world, Look look, plan::Counts& counts);

}  // namespace plimsoll::rl
