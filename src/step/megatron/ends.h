// SPDX-License-Identifier: Apache-2.0
// What stands outside the layers: embedding, final norm, output layer, loss. The loss exists once at a
// time on the rank that has it, because its backward follows its forward at once.
#pragma once

#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

struct EndKept {
  Tensor masked_ids, embedding_mask;  // embedding
  Tensor x, norm, stats;              // final norm
  Tensor softmax, labels, loss[4];    // loss
  bool defers_wgrad = false;          // defer_embedding_wgrad_compute: keep what the head's weight gradient needs
  Tensor deferred_input, deferred_grad;
};

class Ends {
 public:
  Ends(const Choices& choices, const EndSizes& sizes) : c_(choices), e_(sizes) {}

  // Returns the first layer's input.
  Tensor embedding_forward(Tape& tape, EndKept& kept, bool keep) const;
  void embedding_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad) const;

  // Final norm, output layer and loss. first_step autotunes the compiled loss kernels.
  void head_forward(Tape& tape, Tensor x, EndKept& kept, bool first_step) const;
  // Starts the residual gradient. A tied head's weight gradient stays until the embedding's backward.
  void head_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad) const;

  [[nodiscard]] const EndSizes& sizes() const { return e_; }

 private:
  void loss_forward(Tape& tape, Tensor& logits, EndKept& kept, bool first_step) const;
  Tensor loss_backward(Tape& tape, EndKept& kept) const;  // gradient of the logits

  const Choices& c_;
  const EndSizes& e_;
};

}  // namespace plimsoll::step::megatron
