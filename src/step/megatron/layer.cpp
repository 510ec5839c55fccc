// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

Tensor Layer::row_parallel_output(Tape& tape) const {
  Tensor full = tape.alloc(z_.hf, Name::kHidden);
  if (!c_.gathers) return full;
  Tensor scattered = tape.alloc(z_.h, Name::kHidden);
  tape.free(full);
  return scattered;
}

void Layer::norm_forward(Tape& tape, Tensor& output, Tensor& stats, std::int64_t bytes) const {
  output = tape.alloc(bytes, Name::kNormOutput);
  stats = tape.alloc(z_.stats, Name::kNormStats);
}

void Layer::norm_backward(Tape& tape, Tensor grad_output, Tensor& input, bool input_is_held, Tensor& stats,
                          ResidualGrad& grad) const {
  Tensor grad_input = tape.alloc(z_.h, Name::kGrad);
  Tensor weight_grad = tape.alloc(z_.norm_weight, Name::kWeightGrad);
  tape.free(grad_output);
  if (!input_is_held) tape.free(input);
  tape.free(stats);
  grad.add(tape, z_.h);
  tape.free(grad_input);
  tape.free(weight_grad);
}

Tensor Layer::column_parallel_backward(Tape& tape, Tensor& grad, Tensor& saved_input, std::int64_t weight) const {
  // Transformer Engine gathers the saved input again; the local implementation has a permanent buffer for it.
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_full = tape.alloc(z_.hf, Name::kGrad);
  tape.after_product();
  Tensor grad_input = c_.gathers ? tape.alloc(z_.h, Name::kGrad) : Tensor{};
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, weight);
  tape.free(gathered);
  if (c_.gathers) tape.free(grad_full);
  tape.free(grad);
  tape.free(saved_input);
  tape.free(weight_grad);
  return c_.gathers ? grad_input : grad_full;
}

// What nobody saves for backward goes when the function that made it returns: a norm fused into its linear with the
// linear, a norm of its own with the layer's half, after the sum of residual and output.
void Layer::drop(Tape& tape, Tensor& norm, Tensor& stats) {
  tape.free(norm);
  tape.free(stats);
}

Tensor Layer::first_half(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const {
  tape.at(Operation::kNorm1);
  norm_forward(tape, kept.norm1, kept.stats1, z_.mla ? z_.h : z_.norm1_saved);
  if (!keep && has_own_norm1()) tape.free(kept.stats1);
  Tensor mixed = z_.mixer.projected > 0 ? mixer_forward(tape, kept, keep) : attention_forward(tape, kept, keep);
  if (keep ? recomputes_norm1() : !has_own_norm1()) drop(tape, kept.norm1, kept.stats1);
  Tensor sum = tape.alloc(z_.h, Name::kNormInput);
  if (c_.bias_dropout_fusion) tape.touch(autotune, Name::kAutotune);
  if (!keep) drop(tape, kept.norm1, kept.stats1);
  if (keep) kept.mask1 = tape.alloc(z_.dropout_mask, Name::kDropoutMask);
  tape.free(mixed);
  return sum;
}

Tensor Layer::second_half(Tape& tape, Kept& kept, bool keep, std::int64_t autotune) const {
  tape.at(Operation::kNorm2);
  // Inside a checkpointed MLP, Transformer Engine's fused norm is part of what is replayed.
  const bool norm2_is_replayed = c_.recompute.mlp && z_.experts == 0 && c_.te;
  norm_forward(tape, kept.norm2, kept.stats2, z_.experts > 0 ? z_.h : z_.norm2_saved);
  if (!keep && has_own_norm2()) tape.free(kept.stats2);
  Tensor ffn = z_.experts > 0 ? moe_forward(tape, kept, keep) : mlp_forward(tape, kept, keep, autotune);
  if (keep ? norm2_is_replayed || recomputes_norm2() : !has_own_norm2()) drop(tape, kept.norm2, kept.stats2);
  Tensor y = tape.alloc(z_.h, Name::kLayerInput);
  if (!keep) drop(tape, kept.norm2, kept.stats2);
  if (keep) kept.mask2 = tape.alloc(z_.dropout_mask, Name::kDropoutMask);
  tape.free(ffn);
  return y;
}

Tensor Layer::forward(Tape& tape, Tensor x, Kept& kept, bool keep, std::int64_t autotune) const {
  kept.x = x;
  tape.rename(kept.x, Name::kLayerInput);
  Tensor y = z_.has_mixer ? first_half(tape, kept, keep, autotune) : Tensor{};
  if (z_.has_mixer && z_.has_feed_forward) kept.x2 = y;
  if (z_.cross.q > 0) cross_forward(tape, kept, keep);
  if (z_.has_feed_forward) y = second_half(tape, kept, keep, autotune);
  if (!z_.has_feed_forward) tape.rename(y, Name::kLayerInput);
  if (!keep) tape.free(kept.x2);
  if (keep) offload(tape, kept);
  return y;
}

void Layer::second_half_backward(Tape& tape, Kept& kept, ResidualGrad& grad, std::int64_t autotune) const {
  // Dropout's backward makes the block's output gradient a tensor of its own.
  Tensor block_grad = kept.mask2 ? tape.alloc(z_.h, Name::kGrad) : Tensor{};
  tape.free(kept.mask2);
  Tensor norm_grad = z_.experts > 0 ? moe_backward(tape, kept) : mlp_backward(tape, kept, autotune);
  tape.free(block_grad);
  tape.at(Operation::kNorm2);
  if (z_.has_mixer) {
    norm_backward(tape, norm_grad, kept.x2, false, kept.stats2, grad);
  } else {
    norm_backward(tape, norm_grad, kept.x, kept.x_is_held, kept.stats2, grad);
  }
}

void Layer::first_half_backward(Tape& tape, Kept& kept, ResidualGrad& grad) const {
  Tensor block_grad = kept.mask1 ? tape.alloc(z_.h, Name::kGrad) : Tensor{};
  tape.free(kept.mask1);
  Tensor norm_grad = z_.mixer.projected > 0 ? mixer_backward(tape, kept) : attention_backward(tape, kept);
  tape.free(block_grad);
  tape.at(Operation::kNorm1);
  norm_backward(tape, norm_grad, kept.x, kept.x_is_held, kept.stats1, grad);
}

void Layer::backward(Tape& tape, Kept& kept, ResidualGrad& grad, std::int64_t autotune) const {
  if (z_.has_feed_forward) second_half_backward(tape, kept, grad, autotune);
  if (z_.cross.q > 0) cross_backward(tape, kept, grad);
  if (z_.has_mixer) first_half_backward(tape, kept, grad);
}

}  // namespace plimsoll::step::megatron
