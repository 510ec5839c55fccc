// SPDX-License-Identifier: Apache-2.0
// The fastest way to train on a given number of GPUs that fits: parallel sizes and recomputation, those of them that
// the user left open. Candidates are priced in time first, and the first that fits in that order is the answer.
#pragma once

#include <optional>
#include <string>

#include "rl/read.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

struct TrainerChoice {
  Settings settings;  // of the trainer's job
  job::Job job;
  TrainerTime time;
};

struct ChoiceCounts {
  std::size_t considered = 0;
  std::size_t refused = 0;
  std::size_t too_large = 0;
};

// `run` is complete for some split; `packed` is its batch. Nothing where no candidate fits.
[[nodiscard]] std::optional<TrainerChoice> choose_trainer(const Run& run, std::int64_t gpus, const Packed& packed,
                                                          ChoiceCounts& counts);

// The peak of the trainer without walking the allocator: tensors of the fullest stage, or states and the copy of the
// weights, and what lies beside PyTorch.
[[nodiscard]] Result<std::int64_t> quick_peak(const Run& run, const job::Job& trainer);

}  // namespace plimsoll::rl
