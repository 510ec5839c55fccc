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
  EndKept decoder;                           // of an encoder-decoder model: its second embedding, and the loss
  Tensor encoded_x, encoded, encoded_stats;  // the encoder's final norm
  std::vector<MtpKept> mtp;                  // by depth
  std::vector<Kept> mtp_layers;              // depth by depth, layer by layer
  Tensor received;                           // input from the previous stage, held by the schedule
  // The first pass of the first step times compiled kernels with so many bytes: those of forward in its first layer,
  // checkpointed or not, that of the activation's backward in its last.
  std::int64_t autotune = 0;
  std::int64_t backward_autotune = 0;
  std::int64_t rope_table = 0;  // bytes of the angles' table, which a chunk makes in its first pass and keeps
};

// One layer kind: its builder and, when folded, its measured profiles.
class LayerKind {
 public:
  LayerKind(const Choices& choices, const LayerSizes& sizes, OffloadScope offload)
      : choices_(choices), sizes_(sizes), offload_(offload), layer_(choices_, sizes_, offload) {}
  LayerKind(const LayerKind& other) = delete;

  // Whether it is the layer of these.
  [[nodiscard]] bool is(const Choices& choices, const LayerSizes& sizes, OffloadScope offload) const {
    return sizes_ == sizes && choices_ == choices && offload_ == offload;
  }

  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] const LayerSizes& sizes() const { return sizes_; }
  // Bringing its offloaded tensors back.
  [[nodiscard]] const Profile& reload(bool held);
  // Host bytes of one pass through such a layer.
  [[nodiscard]] std::int64_t offloaded_bytes();
  // held: the layer's input is held by the schedule or a checkpoint.
  [[nodiscard]] const Profile& forward(bool keep, bool held);
  // fresh: the incoming gradient is held by somebody else, so the first addition makes a new tensor.
  // joins: the gradient of the encoder's output exists already, and this layer's is added to it.
  [[nodiscard]] const Profile& backward(bool fresh, bool held, bool joins);
  // The first call of the first step, with kernel autotuning and what the running tape has armed.
  [[nodiscard]] Profile first_forward(Tape& running, bool keep, bool held, std::int64_t autotune) const;
  [[nodiscard]] Profile first_backward(Tape& running, bool fresh, bool held, bool joins, std::int64_t autotune);

 private:
  Choices choices_;
  LayerSizes sizes_;
  OffloadScope offload_;
  Layer layer_;
  Profile measure_forward(Tape& tape, bool keep, bool held, std::int64_t autotune, Kept& kept) const;

  std::array<std::optional<Profile>, 4> forward_;
  std::array<std::optional<Profile>, 8> backward_;
  std::array<std::optional<Profile>, 2> reload_;  // by held
  std::array<Kept, 2> kept_;                      // by held: sizes that a forward leaves for its backward
};

class ChunkBuilder {
 public:
  // kinds[i] is the layer at position i of the chunk.
  // decoder_ends: of an encoder-decoder model, at the decoder's length; else null.
  ChunkBuilder(const job::Job& job, const job::Chunk& chunk, const Ends& ends, const Ends* decoder_ends,
               std::vector<LayerKind*> kinds, std::vector<LayerKind*> mtp_kinds, bool folded);

  // received is empty for the chunk with the embedding. Returns the output to send, empty at the loss.
  Tensor forward(Tape& tape, Pass& pass, bool is_first) const;
  // Returns the gradient of the received input, empty for the chunk with the embedding. Without a loss
  // in the chunk, the received gradient is held by the schedule.
  Tensor backward(Tape& tape, Pass& pass) const;

  [[nodiscard]] const job::Chunk& chunk() const { return chunk_; }
  [[nodiscard]] const std::vector<LayerKind*>& kinds() const { return kinds_; }
  // Host bytes that one pass in flight needs.
  [[nodiscard]] std::int64_t offloaded_bytes() const;
  // distribute_saved_activations stores less than a group's input; 0: the input itself.
  [[nodiscard]] static std::int64_t checkpoint_bytes(const job::Job& job, const EndSizes& ends);

 private:
  // Layers [first, first + count) are one recomputed group; count 1 and !checkpointed is a plain layer.
  struct Group {
    std::int64_t first;
    std::int64_t count;
    bool checkpointed;
  };
  void add_groups(const job::Recompute& recompute, std::int64_t first, std::int64_t last);
  // Whether two groups have the same layers under the same recomputation.
  [[nodiscard]] bool alike(const Group& a, const Group& b) const;
  // A folded chunk runs one of several groups in a row that are alike and adds it as often, unless something happens
  // in the first of them alone.
  [[nodiscard]] bool repeats(const Tape& tape, const Pass& pass) const {
    return folded_ && encoder_depth_ == 0 && pass.autotune == 0 && pass.backward_autotune == 0 && !tape.has_armed();
  }
  // Between the stacks of an encoder-decoder model.
  Tensor enter_decoder(Tape& tape, Pass& pass, Tensor x) const;
  void leave_decoder(Tape& tape, Pass& pass, ResidualGrad& grad, Tensor& head_weight_grad) const;
  Tensor layer_forward(Tape& tape, std::int64_t i, Tensor x, Pass& pass, bool keep, bool x_is_held) const;
  // Reloads the offloaded tensors of the layer whose backward comes next, one layer ahead.
  void prefetch(Tape& tape, std::int64_t i, Pass& pass) const;
  void layer_backward(Tape& tape, std::int64_t i, Pass& pass, ResidualGrad& grad) const;
  Tensor group_forward(Tape& tape, std::size_t g, Tensor x, Pass& pass, bool x_is_held) const;
  void mtp_forward(Tape& tape, Pass& pass) const;
  // Puts the first gradient on the final hidden state.
  void mtp_backward(Tape& tape, Pass& pass, ResidualGrad& grad) const;
  void group_backward(Tape& tape, std::size_t g, Pass& pass, ResidualGrad& grad, bool x_is_held) const;

  job::Chunk chunk_;
  const Ends& ends_;
  const Ends* decoder_ends_;
  std::int64_t encoder_depth_ = 0;  // layers before the decoder; 0: one stack
  std::vector<LayerKind*> kinds_;
  std::vector<Group> groups_;
  std::int64_t checkpoint_bytes_ = 0;
  std::vector<LayerKind*> mtp_kinds_;  // layers of every MTP depth; empty without MTP
  bool folded_;
  bool offloads_;
};

}  // namespace plimsoll::step::megatron
