// SPDX-License-Identifier: Apache-2.0
// What stands outside the layers: embedding, final norm, output layer, loss. The loss exists once at a
// time on the rank that has it, because its backward follows its forward at once.
#pragma once

#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

// What one loss keeps from its forward to its backward.
struct LossKept {
  Tensor softmax, labels, small[4];
  std::int64_t autotune = 0;  // bytes of the buffer with which its compiled kernels are timed, in the first pass
};

// One depth of multi-token prediction (facts megatron-memory.md 2.6, 6): the shifted embedding and the
// hidden state are normalised, joined, projected, run through one more layer and through the head.
struct MtpKept {
  Tensor embedding, joined, stats[2];
  Tensor y, norm, norm_stats;  // final norm of the depth
  LossKept loss;
};

struct EndKept {
  Tensor masked_ids, embedding_mask;                          // embedding
  Tensor x, norm, stats;                                      // final norm
  Tensor dense, activated, transform_input, transform_stats;  // BERT: before the output layer
  LossKept loss;
  bool defers_wgrad = false;  // defer_embedding_wgrad_compute: keep what the head's weight gradient needs
  Tensor deferred_input, deferred_grad;
};

class Ends {
 public:
  Ends(const Choices& choices, const EndSizes& sizes) : c_(choices), e_(sizes) {}

  // Returns the first layer's input.
  Tensor embedding_forward(Tape& tape, EndKept& kept, bool keep) const;
  // last: no other use of the same table follows, so that its weight gradient is complete.
  void embedding_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad, bool last) const;

  // Final norm, output layer and loss, whose compiled kernels are timed in the first pass.
  void head_forward(Tape& tape, Tensor x, EndKept& kept, bool is_first) const;
  // Starts the residual gradient. A tied head's weight gradient stays until the embedding's backward.
  void head_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad) const;

  // Multi-token prediction around its transformer layer: what goes into the layer, what comes after it,
  // its loss, and the three in reverse. `hidden` is read, not consumed.
  Tensor mtp_enter(Tape& tape, MtpKept& kept) const;
  void mtp_leave(Tape& tape, Tensor y, MtpKept& kept) const;
  void mtp_loss(Tape& tape, MtpKept& kept) const;
  void mtp_loss_backward(Tape& tape, MtpKept& kept, ResidualGrad& grad) const;
  void mtp_enter_backward(Tape& tape, MtpKept& kept, ResidualGrad& grad) const;

  [[nodiscard]] const EndSizes& sizes() const { return e_; }

 private:
  // BERT's dense layer, activation and norm between the final norm and the output layer.
  void transform_forward(Tape& tape, EndKept& kept) const;
  Tensor transform_backward(Tape& tape, EndKept& kept, Tensor grad) const;
  void loss_forward(Tape& tape, Tensor& logits, LossKept& kept, bool is_first) const;
  Tensor loss_backward(Tape& tape, LossKept& kept) const;  // gradient of the logits
  // Output layer: logits of a normalised hidden state; and its gradient, which is returned.
  Tensor project(Tape& tape) const;
  Tensor project_backward(Tape& tape, Tensor& grad_logits, Tensor& weight_grad, bool without_weight) const;

  const Choices& c_;
  const EndSizes& e_;
};

}  // namespace plimsoll::step::megatron
