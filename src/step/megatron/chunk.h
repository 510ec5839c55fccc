// SPDX-License-Identifier: Apache-2.0
// A model chunk (the layers of one virtual stage) as forward and backward passes on the tape, with full
// recompute around its layers. A folded chunk adds the measured profile of each layer kind instead of
// running it; both take the same path through the code below.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "job/pipeline_layout.h"
#include "step/megatron/ends.h"

namespace plimsoll::step::megatron {

// Everything of one pass (chunk, micro-batch) that lives from its forward to its backward.
struct Pass {
  std::vector<Kept> layers;        // by position in the chunk; empty when folded
  std::vector<std::uint8_t> held;  // per layer: its input is held by the schedule or a checkpoint
  std::vector<Tensor> inputs;      // checkpointed inputs of recomputed groups
  EndKept ends;
  Tensor received;            // input from the previous stage, held by the schedule
  std::int64_t autotune = 0;  // the first pass of the first step times compiled kernels with so many bytes
};

// One layer kind: its builder and, when folded, its measured profiles.
class LayerKind {
 public:
  LayerKind(const Choices& choices, const LayerSizes& sizes) : sizes_(sizes), layer_(choices, sizes_) {}
  LayerKind(const LayerKind& other) = delete;

  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] const LayerSizes& sizes() const { return sizes_; }
  [[nodiscard]] const Profile& forward(bool keep);
  // fresh: the incoming gradient is held by somebody; held: the layer's input is.
  [[nodiscard]] const Profile& backward(bool fresh, bool held);
  // The first call of the first step, with kernel autotuning.
  [[nodiscard]] Profile tuned_forward(std::int64_t autotune) const;
  [[nodiscard]] Profile tuned_backward(bool fresh, bool held, std::int64_t autotune);

 private:
  LayerSizes sizes_;
  Layer layer_;
  std::array<std::optional<Profile>, 2> forward_;
  std::array<std::optional<Profile>, 4> backward_;
  Kept kept_;  // sizes that a forward leaves for its backward
};

class ChunkBuilder {
 public:
  // kinds[i] is the layer at position i of the chunk.
  ChunkBuilder(const job::Job& job, const job::Chunk& chunk, const Ends& ends, std::vector<LayerKind*> kinds,
               bool folded);

  // received is empty for the chunk with the embedding. Returns the output to send, empty at the loss.
  Tensor forward(Tape& tape, Pass& pass, bool first_step) const;
  // Returns the gradient of the received input, empty for the chunk with the embedding. Without a loss
  // in the chunk, the received gradient is held by the schedule.
  Tensor backward(Tape& tape, Pass& pass) const;

  [[nodiscard]] const job::Chunk& chunk() const { return chunk_; }

 private:
  // Layers [first, first + count) are one recomputed group; count 1 and !checkpointed is a plain layer.
  struct Group {
    std::int64_t first;
    std::int64_t count;
    bool checkpointed;
  };
  Tensor layer_forward(Tape& tape, std::int64_t i, Tensor x, Pass& pass, bool keep, bool x_is_held) const;
  void layer_backward(Tape& tape, std::int64_t i, Pass& pass, ResidualGrad& grad) const;
  Tensor group_forward(Tape& tape, std::size_t g, Tensor x, Pass& pass, bool x_is_held) const;
  void group_backward(Tape& tape, std::size_t g, Pass& pass, ResidualGrad& grad, bool x_is_held) const;

  job::Chunk chunk_;
  const Ends& ends_;
  std::vector<LayerKind*> kinds_;
  std::vector<Group> groups_;
  std::int64_t checkpoint_bytes_ = 0;  // distribute_saved_activations stores less than the input; 0: the input itself
  std::int64_t mtp_ = 0;
  bool folded_;
};

}  // namespace plimsoll::step::megatron
