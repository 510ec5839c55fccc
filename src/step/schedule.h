// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: in which order a rank runs its passes, and which messages it holds meanwhile.
// In-flight sets come out of running the schedule, never out of an average. Facts: megatron-memory.md 7
// (orders), megatron-anatomy.md 5 and 6 (what is held, and until when).
#pragma once

#include <cstdint>
#include <vector>

#include "step/tape.h"

namespace plimsoll::step {

// What a schedule drives: one rank's passes.
class PassRunner {
 public:
  virtual ~PassRunner() = default;
  // Runs a forward pass; `received` stays the schedule's. Returns the output to send, empty at the loss.
  virtual Tensor forward(std::int64_t chunk, std::int64_t micro_batch, const Tensor& received) = 0;
  // Runs a backward pass; returns the gradient of the received input, empty where there was none.
  virtual Tensor backward(std::int64_t chunk, std::int64_t micro_batch) = 0;
};

struct PipelineShape {
  std::int64_t stages = 1;         // p
  std::int64_t rank = 0;           // r
  std::int64_t chunks = 1;         // v
  std::int64_t micro_batches = 1;  // m
  std::int64_t group = 1;          // micro-batches per group of virtual passes; p by default
  std::int64_t message = 0;        // bytes of one hidden state
  bool overlap = false;            // overlap_p2p_comm: inputs are received while a backward pass runs
  bool prefetches = false;         // overlap_p2p_comm_warmup_flush: there, too, the next message is awaited early
  bool extra_warmup = false;       // overlap_moe_expert_parallel_comm
  bool deallocates_outputs = true;
  bool gpipe = false;

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

// Warm-up passes of a rank: min(p-r-1, m), or 2(p-r-1) + (v-1)*group for the interleaved schedule.
[[nodiscard]] std::int64_t warmup_passes(const PipelineShape& shape);

// Fewer micro-batches with the same peak: past the warm-up every iteration repeats the one before.
[[nodiscard]] std::int64_t micro_batches_to_simulate(const PipelineShape& shape);

// Messages that survive a step: the last input of each receiving chunk and its gradient stay attached
// to the chunk until its next forward.
struct HeldMessages {
  struct Input {
    Tensor x;
    Tensor grad;
  };
  std::vector<Input> chunk_input;
};

void run_pipeline(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held);

}  // namespace plimsoll::step
