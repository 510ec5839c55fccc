// SPDX-License-Identifier: Apache-2.0
// Costs of model chunks: the priced layers and ends that a pipeline rank runs as one pass, and how long that pass
// takes once the host and the link to host memory have had their say.
#pragma once

#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/transformers/launches.h"
#include "step/work.h"
#include "timing/passes.h"
#include "timing/price_store.h"

namespace plimsoll::timing {

// Costs of one micro-batch on one chunk.
struct ChunkCost {
  Parts forward;
  Parts backward;
  Parts replay;
  double tensors = 0;    // weights that are updated one by one
  double offloaded = 0;  // bytes that leave and come back
  // The passes, in seconds: GPU or host, whichever is slower, and what offload adds.
  double forward_seconds = 0;
  double backward_seconds = 0;  // replay included
  double offload_seconds = 0;   // in both

  void add(const PassCost& cost, bool replays) {
    forward += cost.forward;
    backward += cost.backward;
    if (replays) replay += cost.replay;
    tensors += cost.tensors;
  }
  // So many layers that cost the same, some of which are replayed.
  void add(const PassCost& cost, double layers, double replayed) {
    forward += cost.forward.times(layers);
    backward += cost.backward.times(layers);
    replay += cost.replay.times(replayed);
    tensors += cost.tensors * layers;
  }
};

// Prices chunks: each kind of layer once, in the quantised recipe or exempt from it.
class ChunkPricer {
 public:
  // `known` may be null.
  ChunkPricer(const job::Job& job, const Prices& prices, PriceStore* known = nullptr);

  [[nodiscard]] ChunkCost price_chunk(const job::Chunk& chunk);
  // Whether two chunks certainly cost the same.
  [[nodiscard]] bool alike(const job::Chunk& a, const job::Chunk& b) const;

 private:
  struct Slot {
    PassCost cost;
    bool known = false;
  };
  const PassCost& layer(std::int64_t index);
  // A layer of this kind where layer `index` is.
  const PassCost& layer_of(std::size_t kind, std::int64_t index);
  [[nodiscard]] PassCost priced() const;  // of the list
  void set_seconds(ChunkCost& cost) const;
  void set_queued(ChunkCost& cost) const;
  void limit_power(ChunkCost& cost) const;

  const job::Job& job_;
  const Prices& prices_;
  PriceStore* known_;
  step::WorkList list_;  // one room for all: a list is long
  std::vector<Slot> costs_;
  PassCost embedding_, head_, mtp_;
  Parts amax_;  // of a pass of a chunk, under delayed scaling
  bool quantised_ = false;
  bool uniform_ = false;  // every layer costs the same
  double offloaded_ = 0;
  step::transformers::StepLaunches launches_;  // of jobs that run eagerly
  bool eager_ = false;
};

}  // namespace plimsoll::timing
