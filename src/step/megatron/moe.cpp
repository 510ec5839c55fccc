// SPDX-License-Identifier: Apache-2.0
// Mixture of experts: router, dispatch, experts (one GEMM each, or grouped), combine, shared experts
// (facts megatron-anatomy.md 2.4, 3.1, 3.3; megatron-memory.md 4.6).
#include "step/megatron/layer.h"

namespace plimsoll::step::megatron {

Tensor Layer::shared_forward(Tape& tape, Kept& kept, bool keep) const {
  if (z_.shared_fc1 == 0) return {};
  kept.shared_fc1 = tape.alloc(z_.shared_fc1, Name::kSharedExpert);
  kept.shared_act = tape.alloc(z_.shared_act, Name::kSharedExpert);
  Tensor output = row_parallel_output(tape);
  if (!keep || c_.recompute.shared_experts || c_.recompute.moe) {
    tape.free(kept.shared_fc1);
    tape.free(kept.shared_act);
  }
  return output;
}

Tensor Layer::moe_forward(Tape& tape, Kept& kept, bool keep) const {
  const bool drop = !keep || c_.recompute.moe;
  Tensor shared = shared_forward(tape, kept, keep);
  tape.at(Operation::kRouting);
  kept.router = tape.alloc(z_.router_kept, Name::kRouter);
  kept.sort_index = tape.alloc(z_.sort_index, Name::kRouter);
  tape.at(Operation::kDispatch);
  // The latent tokens are the product's output; the projection keeps the norm's output, or a quantised copy.
  Tensor latent = tape.alloc(z_.latent, Name::kMoeTemp);
  if (!drop) kept.latent_in = tape.alloc(z_.latent_saved, Name::kQuantizedInput);
  // The permuted tokens and the receive buffer live until the MoE module returns.
  Tensor permuted = tape.alloc(z_.permuted, Name::kMoeTemp);
  Tensor gathered = tape.alloc(z_.gathered_tokens, Name::kMoeTemp);
  Tensor received = tape.alloc(z_.routed, Name::kMoeTemp);
  kept.probs = tape.alloc(z_.probs, Name::kRouter);
  if (z_.sorted) {
    kept.routed = tape.alloc(z_.routed, Name::kRoutedTokens);
    if (z_.routed_saved < z_.routed) {
      Tensor quantised = tape.alloc(z_.routed_saved, Name::kQuantizedInput);
      tape.free(kept.routed);
      kept.routed = quantised;
    }
  }
  tape.at(Operation::kExperts);
  Tensor outputs;
  if (z_.grouped) {
    kept.expert_fc1 = tape.alloc(z_.expert_fc1, Name::kExpertFc1);
    kept.expert_act_extra = tape.alloc(z_.expert_act_extra, Name::kExpertActivation);
    kept.expert_act = tape.alloc(z_.expert_act, Name::kExpertActivation);
    if (z_.expert_act_saved < z_.expert_act) {
      Tensor quantised = tape.alloc(z_.expert_act_saved, Name::kQuantizedInput);
      tape.free(kept.expert_act);
      kept.expert_act = quantised;
    }
    outputs = tape.alloc(z_.routed, Name::kMoeTemp);
  } else {
    // One GEMM per expert; outputs are collected, then concatenated.
    kept.expert_fc1 = tape.alloc(z_.expert_fc1, Name::kExpertFc1);
    kept.expert_act_extra = tape.alloc(z_.expert_act_extra, Name::kExpertActivation);
    kept.expert_act = tape.alloc(z_.expert_act, Name::kExpertActivation);
    Tensor collected = tape.alloc(z_.routed, Name::kMoeTemp);
    outputs = tape.alloc(z_.routed, Name::kMoeTemp);
    tape.free(collected);
  }
  if (drop || c_.recompute.moe_act) {
    tape.free(kept.expert_act);
    tape.free(kept.expert_act_extra);
  }
  if (drop) {
    tape.free(kept.expert_fc1);
    tape.free(kept.routed);
  }
  tape.at(Operation::kCombine);
  if (z_.sorted) {
    Tensor unsorted = tape.alloc(z_.routed, Name::kMoeTemp);
    tape.free(outputs);
    outputs = unsorted;
  }
  Tensor returned = tape.alloc(z_.permuted, Name::kMoeTemp);
  tape.free(outputs);
  Tensor output;
  if (z_.latent > 0) {  // combined at the experts' width, then projected back
    Tensor combined = tape.alloc(z_.latent, Name::kRoutedTokens);
    tape.free(returned);
    if (z_.latent_out < z_.latent && !drop) {
      kept.latent_out = tape.alloc(z_.latent_out, Name::kQuantizedInput);
      tape.free(combined);
    }
    output = tape.alloc(z_.h, Name::kHidden);
    if (drop) tape.free(combined);
    if (combined) kept.latent_out = combined;
  } else {
    output = tape.alloc(z_.h, Name::kHidden);
    tape.free(returned);
  }
  tape.free(latent);
  tape.free(permuted);
  tape.free(gathered);
  if (z_.sorted || drop) {
    tape.free(received);
  } else {
    kept.routed = received;  // one local expert: the receive buffer itself is fc1's input
    tape.rename(kept.routed, Name::kRoutedTokens);
  }
  if (drop) {
    for (Tensor* t : {&kept.router, &kept.sort_index, &kept.probs}) tape.free(*t);
  }
  if (shared) {
    Tensor sum = tape.alloc(z_.h, Name::kHidden);
    tape.free(shared);
    tape.free(output);
    output = sum;
  }
  return output;
}

void Layer::shared_backward(Tape& tape, Kept& kept) const {
  if (z_.shared_fc1 == 0) return;
  if (!kept.shared_fc1) {
    kept.shared_fc1 = tape.alloc(z_.shared_fc1, Name::kSharedExpert);
    kept.shared_act = tape.alloc(z_.shared_act, Name::kSharedExpert);
  }
  Tensor grad_full = c_.gathers ? tape.alloc(z_.hf, Name::kGatheredHidden) : Tensor{};
  Tensor grad_act = tape.alloc(z_.shared_act, Name::kGrad);
  Tensor weight_grad;
  weight_gradient(tape, weight_grad, z_.w_shared_fc2);
  tape.free(grad_full);
  tape.free(kept.shared_act);
  tape.free(weight_grad);
  Tensor grad_fc1 = tape.alloc(z_.shared_fc1, Name::kGrad);
  tape.free(grad_act);
  tape.free(kept.shared_fc1);
  Tensor none;
  Tensor grad = column_parallel_backward(tape, grad_fc1, none, z_.w_shared_fc1);
  tape.free(grad);
}

Tensor Layer::moe_backward(Tape& tape, Kept& kept) const {
  if (recomputes_norm2()) {
    tape.at(Operation::kReplay);
    kept.norm2 = tape.alloc(z_.h, Name::kNormOutput);
    kept.stats2 = tape.alloc(z_.stats, Name::kNormStats);
  }
  Tensor replayed;
  if (c_.recompute.moe) {
    tape.at(Operation::kReplay);
    kept.router = tape.alloc(z_.router_kept, Name::kRouter);
    kept.sort_index = tape.alloc(z_.sort_index, Name::kRouter);
    kept.probs = tape.alloc(z_.probs, Name::kRouter);
    kept.routed = tape.alloc(z_.routed, Name::kRoutedTokens);
    kept.expert_fc1 = tape.alloc(z_.expert_fc1, Name::kExpertFc1);
    tape.after_product();
    kept.expert_act = tape.alloc(z_.expert_act, Name::kExpertActivation);
    kept.expert_act_extra = tape.alloc(z_.expert_act_extra, Name::kExpertActivation);
    tape.touch(z_.permuted + 2 * z_.routed, Name::kMoeTemp);
    kept.latent_in = tape.alloc(z_.latent_saved, Name::kQuantizedInput);
    kept.latent_out = tape.alloc(z_.latent_out, Name::kRoutedTokens);
    replayed = tape.alloc(z_.h, Name::kReplayed);
  }
  if (c_.recompute.moe_act && !kept.expert_act) {
    tape.at(Operation::kReplay);
    kept.expert_act = tape.alloc(z_.expert_act, Name::kExpertActivation);
    kept.expert_act_extra = tape.alloc(z_.expert_act_extra, Name::kExpertActivation);
  }
  tape.at(Operation::kCombine);
  Tensor grad_latent;
  if (z_.latent > 0) {
    grad_latent = tape.alloc(z_.latent, Name::kGrad);
    Tensor weight_grad;
    weight_gradient(tape, weight_grad, z_.w_latent);
    tape.free(weight_grad);
    tape.free(kept.latent_out);
  }
  Tensor grad_returned = tape.alloc(z_.permuted, Name::kMoeTemp);
  tape.free(grad_latent);
  Tensor grad_outputs = tape.alloc(z_.routed, Name::kMoeTemp);
  tape.free(grad_returned);
  if (z_.sorted) {
    Tensor sorted = tape.alloc(z_.routed, Name::kMoeTemp);
    tape.free(grad_outputs);
    grad_outputs = sorted;
  }
  tape.at(Operation::kExperts);
  tape.after_product();
  Tensor grad_tokens;
  if (z_.grouped || z_.experts_used <= 1) {
    Tensor grad_act = tape.alloc(z_.expert_act, Name::kGrad);
    Tensor weight_grad;
    weight_gradient(tape, weight_grad, z_.w_expert_fc2 * (z_.grouped ? z_.experts : 1));
    tape.free(kept.expert_act);
    tape.free(weight_grad);
    tape.free(grad_outputs);
    Tensor grad_fc1 = tape.alloc(z_.expert_fc1, Name::kGrad);
    tape.free(grad_act);
    tape.free(kept.expert_fc1);
    tape.free(kept.expert_act_extra);
    grad_tokens = tape.alloc(z_.routed, Name::kMoeTemp);
    weight_gradient(tape, weight_grad, z_.w_expert_fc1 * (z_.grouped ? z_.experts : 1));
    tape.free(grad_fc1);
    tape.free(kept.routed);
    tape.free(weight_grad);
  } else {
    // Expert by expert; the gradients of their inputs are collected. Working set of one expert on top.
    const std::int64_t n = z_.experts_used;
    Tensor collected = tape.alloc(z_.routed * (n - 1) / n, Name::kMoeTemp);
    Tensor act_rest = kept.expert_act;
    tape.free(act_rest);
    kept.expert_act = {};
    Tensor grad_act = tape.alloc(z_.expert_act / n, Name::kGrad);
    Tensor weight_grad;
    weight_gradient(tape, weight_grad, z_.w_expert_fc2);
    tape.free(weight_grad);
    Tensor grad_fc1 = tape.alloc(z_.expert_fc1 / n, Name::kGrad);
    tape.free(grad_outputs);
    tape.free(grad_act);
    tape.free(kept.expert_fc1);
    tape.free(kept.expert_act_extra);
    Tensor last = tape.alloc(z_.routed / n, Name::kMoeTemp);
    weight_gradient(tape, weight_grad, z_.w_expert_fc1);
    tape.free(grad_fc1);
    tape.free(kept.routed);
    tape.free(weight_grad);
    grad_tokens = tape.alloc(z_.routed, Name::kMoeTemp);
    tape.free(last);
    tape.free(collected);
  }
  tape.at(Operation::kDispatch);
  if (z_.sorted) {
    Tensor unsorted = tape.alloc(z_.routed, Name::kMoeTemp);
    tape.free(grad_tokens);
    grad_tokens = unsorted;
  }
  Tensor grad_permuted = tape.alloc(z_.permuted, Name::kMoeTemp);
  tape.free(grad_tokens);
  if (z_.latent > 0) {
    grad_latent = tape.alloc(z_.latent, Name::kGrad);
    tape.free(grad_permuted);
    grad_permuted = grad_latent;
  }
  Tensor grad = tape.alloc(z_.h, Name::kGrad);
  if (z_.latent > 0) {
    Tensor weight_grad;
    weight_gradient(tape, weight_grad, z_.w_latent);
    tape.free(weight_grad);
    tape.free(kept.latent_in);
  }
  tape.free(grad_permuted);
  for (Tensor* t : {&kept.router, &kept.sort_index, &kept.probs}) tape.free(*t);
  tape.at(Operation::kExperts);
  shared_backward(tape, kept);
  tape.free(kept.norm2);
  tape.free(replayed);
  return grad;
}

}  // namespace plimsoll::step::megatron
