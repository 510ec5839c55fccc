// SPDX-License-Identifier: Apache-2.0
// Self-attention of Megatron: packed qkv, rope, core attention (flash, cuDNN, unfused), projection; the
// local implementation keeps the packed qkv alive through the value view, Transformer Engine does not
// (facts megatron-anatomy.md 8).
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

// Unfused rope, as recorded: cos and sin are made in fp32, cast, and kept by the products.
void Layer::rope_forward(Tape& tape, std::int64_t bytes, Tensor& cos, Tensor& sin, Tensor& result, bool keep) const {
  for (Tensor* table : {&cos, &sin}) {
    Tensor angles = tape.alloc(2 * z_.rope_half, Name::kRopeTemp);
    Tensor values = tape.alloc(2 * z_.rope_half, Name::kRopeTemp);
    tape.free(angles);
    *table = tape.alloc(z_.rope_half, Name::kRope);
    tape.free(values);
  }
  Tensor times_cos = tape.alloc(bytes, Name::kRopeTemp);
  Tensor negated_half = tape.alloc(bytes / 2, Name::kRopeTemp);
  Tensor rotated = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(negated_half);
  Tensor times_sin = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(rotated);
  Tensor sum = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(times_cos);
  tape.free(times_sin);
  result = tape.alloc(bytes, Name::kQuery);
  tape.free(sum);
  if (keep) return;
  tape.free(cos);
  tape.free(sin);
}

void Layer::rope_backward(Tape& tape, std::int64_t bytes, Tensor& cos, Tensor& sin, Tensor& grad) const {
  Tensor grad_sin = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(sin);
  Tensor half = tape.alloc(bytes / 2, Name::kRopeTemp);
  Tensor rotated = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(grad_sin);
  tape.free(half);
  Tensor grad_cos = tape.alloc(bytes, Name::kRopeTemp);
  tape.free(cos);
  tape.free(grad_cos);
  Tensor sum = tape.alloc(bytes, Name::kGrad);
  tape.free(grad);
  tape.free(rotated);
  grad = sum;
}

void Layer::project_qkv(Tape& tape, Kept& kept) const {
  tape.at(Operation::kQkvLinear);
  Tensor gathered = c_.gathers && c_.te ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  tape.before_product();
  kept.qkv = tape.alloc(z_.qkv, Name::kQkv);
  tape.after_product();
  tape.free(gathered);
  if (z_.qk_norm_input > 0) {
    kept.qk_in = tape.alloc(z_.qk_norm_input, Name::kQuery);
    kept.qk_stats = tape.alloc(z_.qk_norm_stats, Name::kNormStats);
  }
}

// q and kv latents, their norms and up-projections (facts megatron-memory.md 4.5).
void Layer::project_mla(Tape& tape, Kept& kept, bool keep) const {
  tape.at(Operation::kQkvLinear);
  kept.q_latent = tape.alloc(z_.q_latent, Name::kLatent);
  tape.after_product();
  kept.kv_latent = tape.alloc(z_.kv_latent, Name::kLatent);
  kept.q_latent_norm = tape.alloc(z_.q_latent, Name::kLatent);
  kept.kv_latent_norm = tape.alloc(z_.kv_latent_norm, Name::kLatent);
  kept.k_rope = tape.alloc(z_.k_rope, Name::kKey);
  tape.before_product();
  kept.q = tape.alloc(z_.q, Name::kQuery);
  Tensor up = tape.alloc(z_.qkv, Name::kQkv);
  tape.at(Operation::kRotary);
  kept.k = tape.alloc(z_.k, Name::kKey);
  kept.v = tape.alloc(z_.v, Name::kValue);
  tape.free(up);
  if (!keep) {
    for (Tensor* t : {&kept.q_latent, &kept.q_latent_norm, &kept.kv_latent, &kept.kv_latent_norm, &kept.k_rope})
      tape.free(*t);
  }
}

void Layer::core_forward(Tape& tape, Kept& kept) const {
  tape.at(Operation::kCoreAttention);
  Tensor exchange = tape.alloc(z_.cp_buffer, Name::kCpBuffer);
  if (c_.unfused_attention) {
    softmax_forward(tape, z_.score_sizes(), {kept.scores, kept.scores_mask, kept.scores_dropped});
    Tensor context = tape.alloc(z_.out, Name::kHidden);
    kept.out = tape.alloc(z_.out, Name::kAttentionOutput);
    tape.free(context);
  } else {
    kept.out = tape.alloc(z_.out, Name::kAttentionOutput);
    kept.lse = tape.alloc(z_.lse, Name::kLogSumExp);
    kept.out_copy = tape.alloc(z_.out_copy, Name::kAttentionOutput);
  }
  tape.free(exchange);
}

Tensor Layer::attention_forward(Tape& tape, Kept& kept, bool keep) const {
  Tensor query_copy;
  if (z_.mla) {
    project_mla(tape, kept, keep);
  } else {
    project_qkv(tape, kept);
    if (!c_.te) query_copy = tape.alloc(z_.query_copy, Name::kQuery);
    if (c_.rope) {
      tape.at(Operation::kRotary);
      if (c_.te && c_.fused_rope) {
        kept.q = tape.alloc(z_.q, Name::kQuery);
        kept.k = tape.alloc(z_.k, Name::kKey);
      } else {
        rope_forward(tape, z_.q, kept.rope[0], kept.rope[1], kept.q, keep);
        rope_forward(tape, z_.k, kept.rope[2], kept.rope[3], kept.k, keep);
        tape.rename(kept.k, Name::kKey);
      }
      if (c_.te) {
        kept.v = tape.alloc(z_.v, Name::kValue);
        tape.free(kept.qkv);
      }
    }
  }
  if (z_.gate > 0) kept.gate = tape.alloc(z_.gate, Name::kAttentionOutput);
  core_forward(tape, kept);
  const bool drop_core = !keep || c_.recompute.core_attn;
  if (drop_core) {
    for (Tensor* t : {&kept.lse, &kept.scores, &kept.scores_mask, &kept.scores_dropped, &kept.out_copy}) tape.free(*t);
  }
  tape.at(Operation::kProjection);
  if (keep) kept.out_saved = tape.alloc(z_.out_saved, Name::kQuantizedInput);
  Tensor output = row_parallel_output(tape);
  tape.free(query_copy);
  if (!keep) {
    for (Tensor* t : {&kept.k, &kept.qkv, &kept.q, &kept.v, &kept.out, &kept.qk_in, &kept.qk_stats, &kept.gate})
      tape.free(*t);
  } else if (c_.recompute.mla_up_proj && z_.mla) {
    for (Tensor* t : {&kept.q, &kept.k, &kept.v, &kept.q_latent_norm, &kept.kv_latent_norm}) tape.free(*t);
  }
  return output;
}

void Layer::core_backward(Tape& tape, Kept& kept, Tensor& grad_out) const {
  if (c_.recompute.mla_up_proj && z_.mla) {
    tape.at(Operation::kReplay);
    kept.q_latent_norm = tape.alloc(z_.q_latent, Name::kLatent);
    kept.kv_latent_norm = tape.alloc(z_.kv_latent_norm, Name::kLatent);
    kept.q = tape.alloc(z_.q, Name::kQuery);
    Tensor up = tape.alloc(z_.qkv, Name::kQkv);
    kept.k = tape.alloc(z_.k, Name::kKey);
    kept.v = tape.alloc(z_.v, Name::kValue);
    tape.free(up);
  }
  if (c_.recompute.core_attn) {
    tape.free(kept.out);  // only the projection held it
    tape.at(Operation::kReplay);
    core_forward(tape, kept);
  }
  tape.at(Operation::kCoreAttention);
  Tensor exchange = tape.alloc(z_.cp_buffer, Name::kCpBuffer);
  if (c_.unfused_attention) {
    Tensor grad_dropped = tape.alloc(z_.scores, Name::kAttentionTemp);
    Tensor grad_v = tape.alloc(z_.v, Name::kGrad);
    tape.free(grad_out);
    Tensor grad_scores =
        softmax_backward(tape, z_.score_sizes(), {kept.scores, kept.scores_mask, kept.scores_dropped}, grad_dropped);
    grad_out = tape.alloc(z_.q + z_.k, Name::kGrad);
    tape.free(grad_scores);
    tape.free(grad_v);
  } else {
    Tensor grad_q = tape.alloc(z_.q, Name::kGrad);
    Tensor grad_k = tape.alloc(z_.k, Name::kGrad);
    Tensor grad_v = tape.alloc(z_.v, Name::kGrad);
    tape.touch(z_.attention_scratch, Name::kAttentionTemp);
    tape.free(grad_out);
    tape.free(kept.k);
    tape.free(kept.q);
    if (!z_.mla) tape.free(kept.qkv);
    tape.free(kept.v);
    tape.free(kept.lse);
    tape.free(kept.out);
    tape.free(kept.out_copy);
    tape.free(exchange);
    tape.at(Operation::kRotary);
    if (c_.rope && !z_.mla && !(c_.te && c_.fused_rope)) {
      rope_backward(tape, z_.k, kept.rope[2], kept.rope[3], grad_k);
      rope_backward(tape, z_.q, kept.rope[0], kept.rope[1], grad_q);
    }
    grad_out = tape.alloc(z_.mla ? z_.q + z_.qkv : z_.qkv, Name::kGrad);
    tape.free(grad_q);
    tape.free(grad_k);
    tape.free(grad_v);
    return;
  }
  tape.free(exchange);
  for (Tensor* t : {&kept.k, &kept.q, &kept.v, &kept.out, &kept.rope[0], &kept.rope[1], &kept.rope[2], &kept.rope[3]})
    tape.free(*t);
  if (!z_.mla) tape.free(kept.qkv);
}

Tensor Layer::attention_backward(Tape& tape, Kept& kept) const {
  if (recomputes_norm1()) {
    tape.at(Operation::kReplay);
    kept.norm1 = tape.alloc(z_.h, Name::kNormOutput);
    kept.stats1 = tape.alloc(z_.stats, Name::kNormStats);
  }
  tape.at(Operation::kProjection);
  Tensor grad_full = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_out = tape.alloc(z_.out, Name::kGrad);
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, z_.w_proj);
  tape.free(grad_full);
  tape.free(weight_grad);
  tape.free(kept.out_saved);

  core_backward(tape, kept, grad_out);  // grad_out becomes the gradient of the packed qkv
  tape.free(kept.gate);
  tape.free(kept.qk_in);
  tape.free(kept.qk_stats);

  tape.at(Operation::kQkvLinear);
  if (z_.mla) {  // up-projections first, then the replicated down-projections
    Tensor up_weight;
    weight_gradient(tape, up_weight, z_.w_qkv);
    Tensor grad_latent = tape.alloc(2 * (z_.q_latent + z_.kv_latent), Name::kGrad);
    tape.free(grad_out);
    for (Tensor* t : {&kept.q_latent_norm, &kept.kv_latent_norm, &kept.q_latent, &kept.kv_latent, &kept.k_rope})
      tape.free(*t);
    tape.free(up_weight);
    Tensor down_weight;
    weight_gradient(tape, down_weight, z_.w_down);
    Tensor grad_hidden = tape.alloc(z_.h, Name::kGrad);
    tape.free(grad_latent);
    tape.free(kept.norm1);
    tape.free(down_weight);
    return grad_hidden;
  }
  return column_parallel_backward(tape, grad_out, kept.norm1, z_.w_qkv);
}

}  // namespace plimsoll::step::megatron
