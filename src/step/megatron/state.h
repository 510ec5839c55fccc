// SPDX-License-Identifier: Apache-2.0
// Model state of a Megatron rank: weights, DDP buffers, optimizer, and what each of their phases makes
// and drops (facts megatron-anatomy.md 1, 4; megatron-memory.md 3).
#pragma once

#include <vector>

#include "step/megatron/weights.h"
#include "step/tape.h"

namespace plimsoll::step::megatron {

// Elements of one owned piece of a parameter: what this data-parallel rank updates.
struct Piece {
  std::int64_t elements = 0;
  bool decayed = true;
  bool expert = false;
};

// Splits a chunk's parameters over `shards` ranks as the distributed optimizer does: contiguous buffers
// in reverse creation order, every parameter on a multiple of 64 elements, every bucket padded to
// lcm(shards, 128) and cut into equal pieces.
struct BufferPlan {
  std::int64_t elements = 0;  // padded
  std::vector<Piece> pieces;  // owned by shard `shard`
};
[[nodiscard]] BufferPlan plan_buffer(const std::vector<Weight>& weights, bool experts, std::int64_t shards,
                                     std::int64_t shard, std::int64_t bucket_elements, bool pad_for_busbw);

class State {
 public:
  State(const job::Job& job, const std::vector<job::Chunk>& chunks, std::int64_t stage);

  void build_model(Tape& tape);
  void wrap(Tape& tape);  // DDP
  void build_optimizer(Tape& tape);
  // Quantised copies of GEMM weights that stay between micro-batches (facts megatron-memory.md 3.3).
  void quantise_weights(Tape& tape);
  void begin_step(Tape& tape);  // zero_grad: drops the fp32 gradient copies
  void update(Tape& tape);      // optimizer step; the first one makes the moments
  void release(Tape& tape);     // frees everything, for the books

  [[nodiscard]] std::int64_t parameters() const { return parameters_; }
  // Scratch of the last reduction: with fp32 accumulation its bucket again, under Megatron-FSDP the bucket itself.
  [[nodiscard]] std::int64_t reduce_scratch() const;
  // Bytes that the first update adds for good.
  [[nodiscard]] std::int64_t moment_bytes() const;
  // Bytes per rank on the host, pinned: optimizer CPU offload.
  [[nodiscard]] std::int64_t host_bytes() const { return host_bytes_; }

 private:
  void clip(Tape& tape) const;
  struct ChunkState {
    std::int64_t layers = 0;
    std::vector<Weight> weights;
    std::vector<Tensor> dense, experts, frozen;  // weights as created by the model
    std::vector<Tensor> buffers;                 // param and grad buffers
    std::vector<Piece> pieces;
  };
  void wrap_chunk(Tape& tape, ChunkState& chunk, std::int64_t index, bool experts);
  // fsdp.cpp: Megatron-FSDP shards what its strategy says instead of DDP's buffers.
  void wrap_fsdp(Tape& tape, ChunkState& chunk);
  void gather_units(Tape& tape);
  [[nodiscard]] std::int64_t fsdp_param_bytes(const Weight& weight) const;
  [[nodiscard]] std::int64_t units_in_flight(std::int64_t unit, std::int64_t layers) const;
  // The model's own weights never exist: wrapping makes them one by one (init_model_with_meta_device).
  [[nodiscard]] bool builds_on_meta() const;
  [[nodiscard]] std::int64_t param_bytes(const Weight& weight) const;
  [[nodiscard]] std::int64_t quantised_bytes(const Weight& weight) const;
  [[nodiscard]] std::int64_t moment_bytes(const Piece& piece, int which) const;

  const job::Job& job_;
  std::int64_t stage_;
  std::vector<ChunkState> chunks_;
  std::vector<Tensor> main_;
  std::vector<Tensor> moments_;
  std::vector<Tensor> grad_copies_;
  std::vector<Tensor> unit_buffers_;  // Megatron-FSDP: gathered units and their gradients during a step
  std::vector<Piece> owned_;          // all pieces in optimizer order
  std::int64_t parameters_ = 0;
  std::int64_t late_gradients_ = 0;  // Megatron-FSDP: whole gradients that only the end of a backward pass has
  std::int64_t host_bytes_ = 0;
  bool has_moments_ = false;
  bool has_experts_ = false;  // some weights live in the expert domain
};

}  // namespace plimsoll::step::megatron
