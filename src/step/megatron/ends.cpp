// SPDX-License-Identifier: Apache-2.0
// Orders and sizes: facts megatron-anatomy.md 2.2, 3.1 (embedding), 3.2 (loss), 3.3 (embedding backward).
#include "step/megatron/ends.h"

#include <utility>

namespace plimsoll::step::megatron {

Tensor Ends::embedding_forward(Tape& tape, EndKept& kept, bool keep) const {
  tape.at(Operation::kEmbedding);
  if (e_.tp) {
    Tensor shifted = tape.alloc(e_.tokens, Name::kTokens);
    kept.masked_ids = tape.alloc(e_.masked_ids, Name::kTokens);
    tape.free(shifted);
  }
  Tensor rows = tape.alloc(e_.hf, Name::kHidden);
  if (e_.tp) {  // masked copy, then the reduction
    Tensor masked = tape.alloc(e_.hf, Name::kHidden);
    tape.free(rows);
    rows = masked;
  }
  if (c_.gathers) {
    Tensor scattered = tape.alloc(e_.h, Name::kHidden);
    tape.free(rows);
    rows = scattered;
  }
  if (e_.w_positions > 0) {
    Tensor positions = tape.alloc(e_.hf, Name::kHidden);
    Tensor sum = tape.alloc(e_.hf, Name::kHidden);
    tape.free(rows);
    tape.free(positions);
    rows = sum;
  }
  if (e_.token_types > 0) {
    Tensor types = tape.alloc(e_.hf, Name::kHidden);
    Tensor sum = tape.alloc(e_.hf, Name::kHidden);
    tape.free(rows);
    tape.free(types);
    rows = sum;
  }
  // [b,s,h] -> [s,b,h], or the clone that frees the unscattered copy.
  Tensor x = tape.alloc(e_.h, Name::kLayerInput);
  tape.free(rows);
  if (e_.embedding_mask > 0) {
    Tensor dropped = tape.alloc(e_.h, Name::kLayerInput);
    if (keep) kept.embedding_mask = tape.alloc(e_.embedding_mask, Name::kDropoutMask);
    tape.free(x);
    x = dropped;
  }
  if (!keep) tape.free(kept.masked_ids);
  return x;
}

void Ends::embedding_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad,
                              bool last) const {
  tape.at(Operation::kEmbedding);
  if (kept.embedding_mask) {
    Tensor undropped = tape.alloc(e_.h, Name::kGrad);
    tape.free(grad.tensor);
    tape.free(kept.embedding_mask);
    grad.tensor = undropped;
  }
  Tensor full = tape.alloc(e_.hf, Name::kGrad);
  if (c_.gathers) tape.free(grad.tensor);
  if (e_.tp) {
    Tensor masked = tape.alloc(e_.hf, Name::kGrad);
    tape.free(full);
    full = masked;
  }
  // The gathered gradient is transposed; the copy is contiguous.
  Tensor transposed = c_.gathers && e_.tp ? tape.alloc(e_.hf, Name::kGrad) : Tensor{};
  Tensor weight = tape.alloc(e_.w_embedding, Name::kWeightGrad);
  tape.touch(e_.embedding_scratch, Name::kGrad);
  tape.free(transposed);
  // Gradients of one table meet before they reach it: the first waits for the others.
  if (last) tape.free(head_weight_grad);
  tape.free(kept.masked_ids);
  tape.free(full);
  if (!last && !head_weight_grad) {
    head_weight_grad = weight;
  } else {
    tape.free(weight);
  }
  if (e_.w_positions > 0) tape.touch(e_.w_positions, Name::kWeightGrad);
  tape.free(grad.tensor);
}

void Ends::loss_forward(Tape& tape, Tensor& logits, LossKept& kept, bool is_first) const {
  tape.at(Operation::kLoss);
  kept.labels = tape.alloc(e_.tokens, Name::kTokens);
  switch (e_.loss) {
    case job::LossKind::kNativeFused: {
      kept.autotune = is_first ? e_.autotune : 0;
      kept.softmax = tape.alloc(e_.logits_fp32, Name::kLogitsFp32);
      tape.touch(kept.autotune, Name::kAutotune);  // of the largest logit
      for (Tensor& small : kept.small) small = tape.alloc(e_.loss_small, Name::kTokens);
      Tensor temp = tape.alloc(e_.logits_fp32, Name::kLossTemp);
      tape.touch(kept.autotune, Name::kAutotune);  // of the predicted logits
      tape.free(temp);
      if (kept.autotune > 0) {  // the kernel that works in place is timed on copies, beside the buffer
        Tensor buffer = tape.alloc(kept.autotune, Name::kAutotune);
        tape.touch(e_.logits_fp32, Name::kLossTemp);
        tape.free(buffer);
      }
      break;
    }
    case job::LossKind::kTe:  // in place on the logits, which stay as their own gradient
      kept.softmax = logits;
      logits = {};
      for (Tensor& small : kept.small) small = tape.alloc(e_.loss_small, Name::kTokens);
      return;
    default: {  // float() once, which copies nothing where they are fp32; the rest in place
      kept.softmax =
          e_.logits < e_.logits_fp32 ? tape.alloc(e_.logits_fp32, Name::kLogitsFp32) : std::exchange(logits, {});
      for (Tensor& small : kept.small) small = tape.alloc(e_.loss_small, Name::kTokens);
      break;
    }
  }
  // The 16-bit logits die when the model's forward returns.
  tape.free(logits);
}

Tensor Ends::loss_backward(Tape& tape, LossKept& kept) const {
  tape.at(Operation::kLoss);
  Tensor grad;
  switch (e_.loss) {
    case job::LossKind::kNativeFused: {
      Tensor temp = tape.alloc(e_.logits_fp32, Name::kLossTemp);
      tape.touch(kept.autotune, Name::kAutotune);
      grad = tape.alloc(e_.logits, Name::kLogitsGrad);
      tape.touch(kept.autotune, Name::kAutotune);
      tape.free(temp);
      tape.free(kept.softmax);
      break;
    }
    case job::LossKind::kTe:
      grad = kept.softmax;
      kept.softmax = {};
      break;
    default:
      if (e_.logits == e_.logits_fp32) {
        grad = std::exchange(kept.softmax, {});
        break;
      }
      grad = tape.alloc(e_.logits, Name::kLogitsGrad);
      tape.free(kept.softmax);
      break;
  }
  tape.free(kept.labels);
  for (Tensor& small : kept.small) tape.free(small);
  return grad;
}

Tensor Ends::project(Tape& tape) const {
  tape.at(Operation::kHead);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(e_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor logits = tape.alloc(e_.logits, Name::kLogits);
  tape.free(gathered);
  return logits;
}

Tensor Ends::project_backward(Tape& tape, Tensor& grad_logits, Tensor& weight_grad, bool without_weight) const {
  tape.at(Operation::kHead);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(e_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_full = tape.alloc(e_.hf, Name::kGrad);
  tape.after_product();
  Tensor grad_norm = c_.gathers ? tape.alloc(e_.h, Name::kGrad) : Tensor{};
  weight_grad = c_.wgrad_fusion || without_weight ? Tensor{} : tape.alloc(e_.w_head, Name::kWeightGrad);
  tape.free(gathered);
  if (c_.gathers) {
    tape.free(grad_full);
  } else {
    grad_norm = grad_full;
  }
  if (!without_weight) tape.free(grad_logits);
  return grad_norm;
}

// The final norm's output becomes the dense layer's input, and the second norm's output what the output layer reads.
void Ends::transform_forward(Tape& tape, EndKept& kept) const {
  kept.dense = kept.norm;
  kept.activated = tape.alloc(e_.hf, Name::kHidden);
  Tensor result = tape.alloc(e_.hf, Name::kActivation);
  kept.norm = tape.alloc(e_.hf, Name::kNormOutput);
  kept.transform_stats = tape.alloc(e_.stats, Name::kNormStats);
  kept.transform_input = result;
}

Tensor Ends::transform_backward(Tape& tape, EndKept& kept, Tensor grad) const {
  Tensor grad_activated = tape.alloc(e_.hf, Name::kGrad);
  tape.free(grad);
  tape.free(kept.transform_input);
  tape.free(kept.transform_stats);
  Tensor grad_dense = tape.alloc(e_.hf, Name::kGrad);
  tape.free(grad_activated);
  tape.free(kept.activated);
  Tensor grad_norm = tape.alloc(e_.hf, Name::kGrad);
  tape.touch(e_.w_transform, Name::kWeightGrad);
  tape.free(grad_dense);
  tape.free(kept.dense);
  return grad_norm;
}

void Ends::head_forward(Tape& tape, Tensor x, EndKept& kept, bool is_first) const {
  tape.at(Operation::kFinalNorm);
  kept.x = x;
  kept.norm = tape.alloc(e_.h, Name::kNormOutput);
  kept.stats = tape.alloc(e_.stats, Name::kNormStats);
  if (e_.masked_head) transform_forward(tape, kept);
  Tensor logits = project(tape);
  loss_forward(tape, logits, kept.loss, is_first);
}

void Ends::head_backward(Tape& tape, EndKept& kept, ResidualGrad& grad, Tensor& head_weight_grad) const {
  Tensor grad_logits = loss_backward(tape, kept.loss);
  Tensor weight_grad;
  Tensor grad_norm = project_backward(tape, grad_logits, weight_grad, kept.defers_wgrad);
  if (kept.defers_wgrad) {
    kept.deferred_grad = grad_logits;
    kept.deferred_input = kept.norm;
    kept.norm = {};
  } else {
    tape.free(kept.norm);
  }
  if (e_.masked_head) grad_norm = transform_backward(tape, kept, grad_norm);
  if (e_.tied_here) {
    head_weight_grad = weight_grad;
  } else {
    tape.free(weight_grad);
  }
  tape.at(Operation::kFinalNorm);
  // The MTP branch may already have put a gradient on the final hidden state: then this one is added to it.
  Tensor grad_x = tape.alloc(e_.h, Name::kResidualGrad);
  Tensor norm_weight = tape.alloc(e_.norm_weight, Name::kWeightGrad);
  tape.free(grad_norm);
  tape.free(kept.x);
  tape.free(kept.stats);
  tape.free(norm_weight);
  if (grad.tensor) {
    tape.free(grad_x);
  } else {
    grad.tensor = grad_x;
  }
}

}  // namespace plimsoll::step::megatron
