// SPDX-License-Identifier: Apache-2.0
// One rank of any framework on a tape: the entry that memory/ and timing/ read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/tape.h"

namespace plimsoll::step {

struct RankResult {
  std::int64_t parameters = 0;   // elements held by the rank
  std::int64_t host_bytes = 0;   // host memory of this rank: offloaded state and activations
  std::int64_t rank0_bytes = 0;  // of rank 0 alone, while state is brought together there to be saved
  std::int64_t nvme_bytes = 0;
  std::int64_t outside_bytes = 0;  // device memory outside the torch allocator that the step itself needs
  bool trains = true;              // false: adapters that no module of the model takes
  std::vector<std::string> warnings;
};

// What weights, gradients and optimizer of a Megatron rank do to memory, moment by moment. It depends on how the
// model is split and on the optimizer, not on micro-batch or recomputation: a search that varies only those measures
// it once.
struct StateProfile {
  Profile construction;  // model, DDP buffers, optimizer
  Profile quantised;     // copies of weights that the first use makes
  Profile begin[2];      // of the first step and of every later one
  Profile update[2];
  std::int64_t reduce_scratch = 0;
  std::int64_t moment_bytes = 0;
  std::int64_t parameters = 0;
  std::int64_t host_bytes = 0;
};
[[nodiscard]] StateProfile profile_state(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank);

// Writes construction and two steps of pipeline rank pp_rank to the tape (steps after the second repeat
// it). The job must be complete and the layout its own.
RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded);

// Forward and backward passes of single layers that run_rank() would write: what an unfolded step costs to simulate.
[[nodiscard]] std::int64_t layer_passes(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank);

// What worst_need() has measured for earlier jobs and finds again: one for each thread that searches.
class Known {
 public:
  Known();
  ~Known();
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;
  Known(Known&&) noexcept;
  Known& operator=(Known&&) noexcept;

  struct Profiles;
  [[nodiscard]] Profiles& profiles() const { return *profiles_; }

 private:
  std::unique_ptr<Profiles> profiles_;
};

struct Need {
  std::int64_t peak = 0;  // the highest sum of tensors, and what the step needs beside PyTorch
  std::int64_t host = 0;  // bytes of one rank
};
// The most that any of these ranks needs; counting stops once the peak exceeds `enough`. `states` holds one profile for
// each of the ranks of a Megatron job, and is empty otherwise.
[[nodiscard]] Need worst_need(const job::Job& job, const job::PipelineLayout& layout,
                              const std::vector<std::int64_t>& ranks, const std::vector<StateProfile>& states,
                              std::int64_t enough, const Known* known = nullptr);

}  // namespace plimsoll::step
