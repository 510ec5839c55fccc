// SPDX-License-Identifier: Apache-2.0
// Optimizers over a list of tensors: states made at the first step, temporaries of each step
// (facts other-frameworks-memory.md 2.8, 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "job/job.h"
#include "step/tape.h"
#include "step/transformers/weights.h"

namespace plimsoll::step::transformers {

// One tensor that the optimizer updates: a weight, or this rank's shard of it.
struct Updated {
  std::int64_t elements = 0;
  std::int64_t rows = 0;     // matrices: Adafactor factors rows and columns
  std::int64_t columns = 0;  // 0: a vector
  std::uint8_t width = 4;    // bytes per element of the parameter, its gradient and torch's states
  WeightKind kind = WeightKind::kMatrix;
  bool projected = false;  // GaLore, APOLLO: its gradient is brought to a low rank
  std::int32_t weight = -1;
};

class OptimizerStates {
 public:
  OptimizerStates(const job::Job& job, std::vector<Updated> tensors);
  // One optimizer step; states appear in the first.
  void step(Tape& tape);
  // States are loaded before the first step, without what a step needs beside them.
  void load(Tape& tape);
  // Bytes of the states that are there, on the device.
  [[nodiscard]] std::int64_t state_bytes() const;
  // Of one weight, as soon as its gradient is there; the moment of the tape stays. Nothing where the rank has none of
  // it.
  void step_of(Tape& tape, std::int32_t weight);
  // Device bytes outside the torch allocator (paged states).
  [[nodiscard]] std::int64_t outside_bytes() const { return outside_; }

 private:
  using Tensors = std::span<const Updated>;
  // of: all of a step, or one; makes: their states are not there yet.
  void run(Tape& tape, Tensors of, bool makes);
  void make_states(Tape& tape, const Updated& tensor);
  void torch_adam(Tape& tape, Tensors of);
  void adafactor(Tape& tape, Tensors of, bool makes);
  void muon(Tape& tape, Tensors of);
  void project(Tape& tape, Tensors of, bool makes);  // optimizer_galore.cpp
  void galore(Tape& tape, const Updated& tensor, bool makes);
  void apollo(Tape& tape, const Updated& tensor, bool makes);
  void make_projected_states(Tape& tape, const Updated& tensor, std::int64_t vectors, std::int64_t gradient);
  const job::Job& job_;
  std::vector<Updated> tensors_;
  std::vector<Tensor> states_;
  std::int64_t outside_ = 0;
  bool made_ = false;
  std::vector<bool> made_one_;  // of the tensors that were updated alone
};

}  // namespace plimsoll::step::transformers
