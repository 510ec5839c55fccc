// SPDX-License-Identifier: Apache-2.0
// One transformer layer of Megatron on the tape: what its forward keeps, what its backward frees, in the
// order of the recorded histories (facts megatron-anatomy.md 2, 3). Attention, MLP and MoE are in files
// of their own; this header holds what they share.
#pragma once

#include "step/megatron/sizes.h"
#include "step/tape.h"

namespace plimsoll::step::megatron {

// What the attention to the encoder's output keeps.
struct CrossKept {
  Tensor x, norm, stats;
  Tensor q, kv, context;
  Tensor out, lse, scores, scores_mask, scores_dropped;
  Tensor mask;
};

// What a Mamba-2 mixer keeps.
struct MixerKept {
  Tensor projected, scanned, gated, stats, normed;
};

// Tensors of one layer and one micro-batch between forward and backward. Empty ones are not kept.
struct Kept {
  Tensor x;                // layer input
  bool x_is_held = false;  // received from another stage: the schedule frees it
  Tensor norm1, stats1;
  Tensor qkv, q, k, v, qk_in, qk_stats;
  Tensor rope[4];  // cos and sin for q, then for k
  Tensor out, out_saved, out_copy, lse, gate;
  Tensor scores, scores_mask, scores_dropped;
  Tensor q_latent, q_latent_norm, kv_latent, kv_latent_norm, k_rope;
  Tensor mask1;
  CrossKept cross;
  MixerKept mixer;
  Tensor x2;  // residual after attention
  Tensor norm2, stats2;
  Tensor fc1, act, glu, mask2;
  Tensor routed, probs, router, sort_index, expert_fc1, expert_act, expert_act_extra;
  Tensor shared_fc1, shared_act;
  Tensor latent_in, latent_out;
  std::int64_t on_host[40] = {};  // bytes of tensors that wait on the host, in the order of offload.cpp
};

// Which kept tensors leave the GPU between forward and backward.
enum class OffloadScope : std::uint8_t {
  kNone,
  kModules,  // fine_grained_activation_offloading: what the named modules save
  kLayer,    // cpu_offloading: everything the layer saves
};

// The gradient of the residual stream while backward walks down. A gradient that somebody else holds
// (received from the next stage, or the output of a replayed group) cannot be added to in place: the
// first addition makes a fresh tensor (facts megatron-anatomy.md 3.3).
struct ResidualGrad {
  Tensor tensor;   // owned by the running backward; empty while only the held one exists
  Tensor context;  // of the encoder's output, which every layer of a decoder adds to
  void add(Tape& tape, std::int64_t bytes) {
    if (!tensor) tensor = tape.alloc(bytes, Name::kResidualGrad);
  }
};

class Layer {
 public:
  Layer(const Choices& choices, const LayerSizes& sizes, OffloadScope offload)
      : c_(choices), z_(sizes), offload_(offload) {}

  // Consumes x (moves it into kept) and returns the layer's output. keep == false runs without gradients:
  // everything but x and the output is dropped.
  // autotune: bytes of the buffer with which torch.compile times its kernels at their first call, else 0.
  Tensor forward(Tape& tape, Tensor x, Kept& kept, bool keep, std::int64_t autotune = 0) const;
  void backward(Tape& tape, Kept& kept, ResidualGrad& grad, std::int64_t autotune = 0) const;

  // Brings offloaded tensors back; must run before backward. Nothing for a layer that offloads nothing.
  void reload(Tape& tape, Kept& kept) const;
  // Bytes of one pass that wait on the host.
  [[nodiscard]] std::int64_t offloaded_bytes(const Kept& kept) const;

 private:
  // offload.cpp: frees what is copied to the host.
  void offload(Tape& tape, Kept& kept) const;
  template <class Visit>
  void visit_offloaded(Kept& kept, const Visit& visit) const;

  // attention.cpp
  Tensor attention_forward(Tape& tape, Kept& kept, bool keep) const;
  Tensor attention_backward(Tape& tape, Kept& kept) const;  // returns the gradient of norm1's output
  void project_qkv(Tape& tape, Kept& kept) const;
  void project_mla(Tape& tape, Kept& kept, bool keep) const;
  void rope_forward(Tape& tape, std::int64_t bytes, Tensor& cos, Tensor& sin, Tensor& result, bool keep) const;
  void rope_backward(Tape& tape, std::int64_t bytes, Tensor& cos, Tensor& sin, Tensor& grad) const;
  void core_forward(Tape& tape, Kept& kept) const;
  void core_backward(Tape& tape, Kept& kept, Tensor& grad_out) const;
  // cross.cpp
  void cross_forward(Tape& tape, Kept& kept, bool keep) const;
  void cross_backward(Tape& tape, Kept& kept, ResidualGrad& grad) const;
  void cross_core_forward(Tape& tape, CrossKept& kept) const;
  void cross_core_backward(Tape& tape, CrossKept& kept, Tensor& grad_out, Tensor& grad_kv) const;
  // mixer.cpp
  Tensor mixer_forward(Tape& tape, Kept& kept, bool keep) const;
  Tensor mixer_backward(Tape& tape, Kept& kept) const;  // returns the gradient of norm1's output
  void scan_backward(Tape& tape, Tensor& grad_out, Tensor& grad_projected) const;
  // mlp.cpp
  Tensor mlp_forward(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const;
  Tensor mlp_backward(Tape& tape, Kept& kept, std::int64_t autotune) const;  // returns the gradient of norm2's output
  // moe.cpp
  Tensor moe_forward(Tape& tape, Kept& kept, bool keep) const;
  Tensor moe_backward(Tape& tape, Kept& kept) const;
  Tensor shared_forward(Tape& tape, Kept& kept, bool keep) const;
  void shared_backward(Tape& tape, Kept& kept) const;

  // The two halves of a layer, of which a layer of a hybrid model has one.
  Tensor first_half(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const;
  Tensor second_half(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const;
  void first_half_backward(Tape& tape, Kept& kept, ResidualGrad& grad) const;
  void second_half_backward(Tape& tape, Kept& kept, ResidualGrad& grad, std::int64_t autotune) const;

  // The output of a row-parallel linear: full, then reduce-scattered under sequence parallelism.
  Tensor row_parallel_output(Tape& tape) const;
  void norm_forward(Tape& tape, Tensor& output, Tensor& stats, std::int64_t bytes) const;
  // Gradient of a norm: `grad_output` is consumed, the residual gradient grows.
  void norm_backward(Tape& tape, Tensor grad_output, Tensor& input, bool input_is_held, Tensor& stats,
                     ResidualGrad& grad) const;
  // Gradient of a column-parallel linear (qkv, fc1): `grad` is consumed; returns the gradient of its input.
  Tensor column_parallel_backward(Tape& tape, Tensor& grad, Tensor& saved_input, std::int64_t weight) const;
  void weight_gradient(Tape& tape, Tensor& slot, std::int64_t bytes) const {
    slot = c_.wgrad_fusion ? Tensor{} : tape.alloc(bytes, Name::kWeightGrad);
  }
  static void drop(Tape& tape, Tensor& norm, Tensor& stats);
  // Transformer Engine fuses norms into the linears that follow them.
  [[nodiscard]] bool has_own_norm1() const { return !c_.te || z_.mla; }
  [[nodiscard]] bool has_own_norm2() const { return !c_.te || z_.experts > 0; }
  [[nodiscard]] bool recomputes_norm1() const { return c_.recompute.layernorm && has_own_norm1(); }
  [[nodiscard]] bool recomputes_norm2() const { return c_.recompute.layernorm && has_own_norm2(); }

  const Choices& c_;
  const LayerSizes& z_;
  OffloadScope offload_;
};

}  // namespace plimsoll::step::megatron
