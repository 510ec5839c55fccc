// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction: one depth around its transformer layer. Every depth has its own logits and
// keeps its own fp32 softmax until the backward (facts megatron-memory.md 6).
#include "step/megatron/ends.h"

namespace plimsoll::step::megatron {

Tensor Ends::mtp_enter(Tape& tape, MtpKept& kept) const {
  tape.at(Operation::kEmbedding);
  Tensor rows = tape.alloc(e_.hf, Name::kHidden);
  kept.embedding = tape.alloc(e_.h, Name::kNormInput);
  tape.free(rows);
  tape.at(Operation::kNorm1);
  Tensor norm_embedding = tape.alloc(e_.h, Name::kNormOutput);
  Tensor norm_hidden = tape.alloc(e_.h, Name::kNormOutput);
  for (Tensor& stats : kept.stats) stats = tape.alloc(e_.stats, Name::kNormStats);
  kept.joined = tape.alloc(2 * e_.h, Name::kNormOutput);
  tape.free(norm_embedding);
  tape.free(norm_hidden);
  tape.at(Operation::kProjection);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(2 * e_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor projected = tape.alloc(e_.h, Name::kLayerInput);
  tape.free(gathered);
  return projected;
}

void Ends::mtp_leave(Tape& tape, Tensor y, MtpKept& kept) const {
  tape.at(Operation::kFinalNorm);
  kept.y = y;
  kept.norm = tape.alloc(e_.h, Name::kNormOutput);
  kept.norm_stats = tape.alloc(e_.stats, Name::kNormStats);
}

void Ends::mtp_loss(Tape& tape, MtpKept& kept) const {
  Tensor logits = project(tape);
  loss_forward(tape, logits, kept.loss, false);
}

void Ends::mtp_loss_backward(Tape& tape, MtpKept& kept, ResidualGrad& grad) const {
  Tensor grad_logits = loss_backward(tape, kept.loss);
  Tensor weight_grad;
  Tensor grad_norm = project_backward(tape, grad_logits, weight_grad, false);
  tape.free(weight_grad);
  tape.free(kept.norm);
  tape.at(Operation::kFinalNorm);
  grad.tensor = tape.alloc(e_.h, Name::kResidualGrad);
  tape.free(grad_norm);
  tape.free(kept.y);
  tape.free(kept.norm_stats);
}

void Ends::mtp_enter_backward(Tape& tape, MtpKept& kept, ResidualGrad& grad) const {
  tape.at(Operation::kProjection);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(2 * e_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_joined = tape.alloc(2 * e_.h, Name::kGrad);
  Tensor weight_grad = c_.wgrad_fusion ? Tensor{} : tape.alloc(e_.w_mtp_projection, Name::kWeightGrad);
  tape.free(gathered);
  tape.free(kept.joined);
  tape.free(weight_grad);
  tape.free(grad.tensor);
  tape.at(Operation::kNorm1);
  Tensor grad_hidden = tape.alloc(e_.h, Name::kResidualGrad);
  Tensor grad_embedding = tape.alloc(e_.h, Name::kGrad);
  tape.free(grad_joined);
  tape.free(kept.embedding);
  for (Tensor& stats : kept.stats) tape.free(stats);
  tape.at(Operation::kEmbedding);
  Tensor full = tape.alloc(e_.hf, Name::kGrad);
  tape.free(grad_embedding);
  tape.touch(e_.w_embedding, Name::kWeightGrad);
  tape.free(full);
  grad.tensor = grad_hidden;
}

}  // namespace plimsoll::step::megatron
