// SPDX-License-Identifier: Apache-2.0
// The trainer's side: its job (one bin is a micro-batch), the seconds of a step over a packed batch, and the three
// moments at which its memory peaks: the step, the gather of the weights and their broadcast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/request.h"
#include "lever/world.h"
#include "memory/answer.h"
#include "rl/packing.h"
#include "rl/run.h"
#include "timing/step_time.h"

namespace plimsoll::rl {

// What the run asks of its trainer: its keys, on its GPUs, a micro-batch of one bin.
[[nodiscard]] Result<job::Request> trainer_request(const Run& run);
// The training job of that request: micro-batches as the batch needs.
[[nodiscard]] Result<job::Job> make_trainer(const Run& run);

// The multiple that bins are padded to: the user's with what context parallelism needs (facts rl-and-inference.md 2).
[[nodiscard]] std::int64_t bin_multiple(const Run& run, const job::Job& trainer);

// Attention within samples only, `share` of what a whole sequence costs; bubbles shrink with the compute that they wait
// for.
void scale_attention(timing::Breakdown& parts, const job::Job& job, double share);

struct TrainerTime {
  Packed packed;
  timing::StepTime step;        // of one optimizer step, on bins as full as they are on average
  double attention_share = 1;   // sum of squared sample lengths / squared bin, of what a whole sequence would cost
  double forward_backward = 0;  // seconds of a batch, all its mini-batches, messages and bubbles
  double extra_passes = 0;      // log-probabilities of policy and reference
  double critic = 0;
  double optimizer = 0;
  double overhead = 0;
  double seconds = 0;  // of a batch, without weight synchronisation
  double tokens_per_second_per_gpu = 0;
};

// `packed` is of the run's batch; its bins are dealt to the job's ranks here.
[[nodiscard]] Result<TrainerTime> trainer_time(const Run& run, const job::Job& trainer, Packed packed,
                                               const lever::World& world = {});

struct Peak {
  std::string name;  // "training step", "gather of the weights", "broadcast of the weights"
  std::int64_t bytes = 0;
  std::string made_of;
};

struct TrainerMemory {
  memory::RankAnswer rank;      // the worst, in its training step
  std::int64_t parameters = 0;  // bytes on a GPU
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t reference = 0;  // of a frozen copy and of a critic, where the algorithm has one
  std::int64_t critic = 0;
  std::int64_t copy = 0;    // of the gathered weights on the GPU
  std::int64_t bucket = 0;  // of flat buffers that weights are sent from
  std::vector<Peak> peaks;  // in the order of a step
  std::size_t highest = 0;  // index into peaks
  std::int64_t capacity = 0;
  bool fits = false;
  // Where it does not fit: its highest peak with the gathered copy staged on the host, if it would fit so.
  std::optional<std::int64_t> staged_peak;
  std::vector<std::string> warnings;

  [[nodiscard]] std::int64_t peak() const { return peaks[highest].bytes; }
};

[[nodiscard]] Result<TrainerMemory> trainer_memory(const Run& run, const job::Job& trainer,
                                                   const lever::World& world = {});

// Bytes of the fullest moment on top of a training step whose worst rank is known, or whose tensors need `step` bytes
// (then no more than there will be).
[[nodiscard]] std::int64_t beside_step(const Run& run, const job::Job& trainer, const memory::RankAnswer& rank);
[[nodiscard]] std::int64_t least_beside_step(const Run& run, const job::Job& trainer, std::int64_t step);

}  // namespace plimsoll::rl
