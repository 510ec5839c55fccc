// SPDX-License-Identifier: Apache-2.0
// Seconds in which new weights reach the servers: gather on the trainer, transfer, and loading there
// (facts rl-and-inference.md 6).
#pragma once

#include "lever/world.h"
#include "rl/run.h"

namespace plimsoll::rl {

struct SyncTime {
  double gather = 0;     // on the trainer, while the servers go on
  double transfer = 0;   // bytes over the slowest link
  double load = 0;       // names, views and copies of every tensor
  double staging = 0;    // to the host and back
  double switching = 0;  // colocated: the states of the trainer to the host and back
  bool crosses = false;  // the transfer leaves the NVLink domain
  bool shared = false;   // colocated: weights stay on their GPU
  std::int64_t tensors = 0;
  double bytes = 0;  // sent

  // The trainer is busy all along; servers stand still from the first bucket on.
  [[nodiscard]] double seconds() const { return gather + staging + switching + transfer + load; }
  [[nodiscard]] double pause() const { return transfer + load; }
};

// Tensors of a checkpoint of the model: what an engine loads one by one.
[[nodiscard]] std::int64_t checkpoint_tensors(const model::Architecture& model);

// `states`: bytes of a GPU that a colocated trainer moves out of the servers' way.
[[nodiscard]] SyncTime sync_time(const Run& run, const job::Job& trainer, std::int64_t states,
                                 const lever::World& world = {});

}  // namespace plimsoll::rl
