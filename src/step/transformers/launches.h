// SPDX-License-Identifier: Apache-2.0
// The launches of one micro-batch of a Hugging Face model, part by part: each kind of layer once, and the ends.
// Made by running the graph of the memory model with a meter attached.
#pragma once

#include <cstddef>
#include <vector>

#include "job/job.h"
#include "step/transformers/meter.h"

namespace plimsoll::step::transformers {

struct PartLaunches {
  Launches forward;
  Launches backward;
  double tensors = 0;  // weights of its modules
};

struct StepLaunches {
  // By kind of layer, without checkpointing; behind them the same kinds with other parts trained, where layers differ
  // in that.
  std::vector<PartLaunches> kinds;
  std::vector<std::size_t> of_layer;  // which of them, by depth
  PartLaunches ends;                  // embedding, tables and masks, head, loss
};

// The job must be complete and run on whole layers: no tensor parallelism.
[[nodiscard]] StepLaunches launches_of(const job::Job& job);

}  // namespace plimsoll::step::transformers
