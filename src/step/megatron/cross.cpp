// SPDX-License-Identifier: Apache-2.0
// The attention of a decoder's layer to the encoder's output (T5): a norm of its own, queries of the decoder's tokens,
// keys and values of the encoder's, packed into one tensor (facts megatron-memory.md 4.9).
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

void Layer::cross_core_forward(Tape& tape, CrossKept& kept) const {
  tape.at(Operation::kCoreAttention);
  const CrossSizes& c = z_.cross;
  if (!c_.unfused_attention) {
    kept.out = tape.alloc(c.out, Name::kAttentionOutput);
    kept.lse = tape.alloc(c.lse, Name::kLogSumExp);
    return;
  }
  softmax_forward(tape, c.score_sizes(), {kept.scores, kept.scores_mask, kept.scores_dropped});
  Tensor context = tape.alloc(c.out, Name::kHidden);
  kept.out = tape.alloc(c.out, Name::kAttentionOutput);
  tape.free(context);
}

void Layer::cross_forward(Tape& tape, Kept& kept, bool keep) const {
  const CrossSizes& c = z_.cross;
  CrossKept& k = kept.cross;
  k.x = kept.x2;
  norm_forward(tape, k.norm, k.stats, z_.h);
  tape.at(Operation::kQkvLinear);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(c.context_full, Name::kGatheredHidden) : Tensor{};
  k.kv = tape.alloc(c.kv, Name::kKey);
  tape.free(gathered);
  if (keep) k.context = tape.alloc(c.context_saved, Name::kQuantizedInput);
  gathered = c_.gathers && c_.te ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  k.q = tape.alloc(c.q, Name::kQuery);
  tape.free(gathered);
  cross_core_forward(tape, k);
  if (!keep || c_.recompute.core_attn)
    for (Tensor* t : {&k.lse, &k.scores, &k.scores_mask, &k.scores_dropped}) tape.free(*t);
  tape.at(Operation::kProjection);
  Tensor output = row_parallel_output(tape);
  if (!keep)
    for (Tensor* t : {&k.norm, &k.stats, &k.q, &k.kv, &k.out}) tape.free(*t);
  kept.x2 = tape.alloc(z_.h, Name::kNormInput);
  if (keep) k.mask = tape.alloc(z_.dropout_mask, Name::kDropoutMask);
  tape.free(output);
  if (!keep) tape.free(k.x);
}

void Layer::cross_core_backward(Tape& tape, CrossKept& kept, Tensor& grad_out, Tensor& grad_kv) const {
  const CrossSizes& c = z_.cross;
  if (c_.recompute.core_attn) {
    tape.free(kept.out);  // only the projection held it
    tape.at(Operation::kReplay);
    cross_core_forward(tape, kept);
  }
  tape.at(Operation::kCoreAttention);
  Tensor grad_q;
  if (!c_.unfused_attention) {
    grad_q = tape.alloc(c.q, Name::kGrad);
    grad_kv = tape.alloc(c.kv, Name::kGrad);
    tape.touch(c.scratch, Name::kAttentionTemp);
    tape.free(grad_out);
  } else {
    Tensor grad_scores = tape.alloc(c.scores, Name::kAttentionTemp);
    Tensor grad_v = tape.alloc(c.kv / 2, Name::kGrad);
    tape.free(grad_out);
    Tensor grad_raw =
        softmax_backward(tape, c.score_sizes(), {kept.scores, kept.scores_mask, kept.scores_dropped}, grad_scores);
    grad_q = tape.alloc(c.q, Name::kGrad);
    Tensor grad_k = tape.alloc(c.kv / 2, Name::kGrad);
    tape.free(grad_raw);
    grad_kv = tape.alloc(c.kv, Name::kGrad);
    tape.free(grad_k);
    tape.free(grad_v);
  }
  for (Tensor* t : {&kept.q, &kept.kv, &kept.lse, &kept.out}) tape.free(*t);
  grad_out = grad_q;
}

void Layer::cross_backward(Tape& tape, Kept& kept, ResidualGrad& grad) const {
  const CrossSizes& c = z_.cross;
  CrossKept& k = kept.cross;
  Tensor block_grad = k.mask ? tape.alloc(z_.h, Name::kGrad) : Tensor{};
  tape.free(k.mask);
  tape.at(Operation::kProjection);
  Tensor grad_full = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_q = tape.alloc(c.out, Name::kGrad);
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, c.w_proj);
  tape.free(grad_full);
  tape.free(weight_grad);
  Tensor grad_kv;
  cross_core_backward(tape, k, grad_q, grad_kv);

  tape.at(Operation::kQkvLinear);
  Tensor grad_norm = column_parallel_backward(tape, grad_q, k.norm, c.w_q);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(c.context_full, Name::kGatheredHidden) : Tensor{};
  Tensor grad_context = tape.alloc(c.context_full, Name::kGrad);
  weight_gradient(tape, weight_grad, c.w_kv);
  tape.free(gathered);
  if (c_.gathers) {
    Tensor scattered = tape.alloc(c.context, Name::kGrad);
    tape.free(grad_context);
    grad_context = scattered;
  }
  tape.free(grad_kv);
  tape.free(weight_grad);
  tape.free(k.context);
  if (grad.context) {  // added in place
    tape.free(grad_context);
  } else {
    grad.context = grad_context;
  }
  tape.free(block_grad);
  norm_backward(tape, grad_norm, k.x, false, k.stats, grad);
}

}  // namespace plimsoll::step::megatron
