// SPDX-License-Identifier: Apache-2.0
// What a mixture of experts computes and sends: routing, permutation, dispatch, grouped products, shared experts.
#include "step/work_calls.h"
#include "step/work_parts.h"

namespace plimsoll::step::work {

namespace {

void expert_message(WorkList& list, const Shape& s, const model::FeedForward& ffn) {
  const Job& job = s.job;
  if (job.parallel.expert * job.expert_tensor() <= 1) return;
  Work& w = list.add(Doing::kMessage, Part::kRouter);
  w.group = Group::kExpert;
  w.forward_pattern = w.backward_pattern = Pattern::kAllToAll;
  const bool merges =
      job.moe.dispatcher == job::DispatcherKind::kDeepEp || job.moe.dispatcher == job::DispatcherKind::kHybridEp;
  const double token = s.stored * real(ffn.expert_hidden(job.model.hidden)) * s.act;
  w.merged = merges ? real(ffn.experts_per_token) : 0;
  w.forward_message = w.backward_message = merges ? token : token * real(ffn.experts_per_token);
  if (job.moe.dispatcher == job::DispatcherKind::kAllGather) {
    w.forward_pattern = Pattern::kAllGather;
    w.backward_pattern = Pattern::kReduceScatter;
    w.forward_message = w.backward_message = token * real(job.parallel.expert * job.expert_tensor());
  }
}

void grouped(WorkList& list, const Shape& s, double rows, double columns, double depth, double groups, bool as_one,
             bool quantised) {
  Work& w = list.add(Doing::kGroupedGemm, Part::kExperts);
  w.rows = rows;
  w.columns = columns;
  w.depth = depth;
  w.groups = groups;
  w.quantised = quantised;
  w.trained = trains_base(s.job);
  // A grouped GEMM of Transformer Engine is one call that starts a product for each expert on a few streams. Every
  // expert's weight is a parameter of its own, whose hook is called when its gradient is there.
  const bool loops = as_one && s.job.kernels.implementation == job::Implementation::kTransformerEngine;
  w.forward_kernels = loops ? 1 : as_one ? 2 : groups;
  w.backward_kernels = loops ? 2 + (w.trained ? kLoopStep * groups : 0) : as_one ? 4 : 2 * groups;
  w.forward_launches = loops ? groups : 0;
  if (!s.job.kernels.gradient_accumulation_fusion && s.job.is_megatron() && w.trained) {
    const double main = s.job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
    w.backward_bytes = groups * columns * depth * (2 + 2 * main);
    w.backward_kernels += groups;
  }
  if (!s.local || as_one) return;
  // One expert after the other, each a linear of its own. How many rows it gets differs from call to call.
  set_calls(w,
            {kLinearCalls.forward + kNewShape,
             (w.trained ? kLinearCalls.backward + 2 * kNewShape : kFrozenLinearBackward + kNewShape)},
            groups);
}

// Transformer Engine returns the bias of the second product. Megatron adds it expert by expert, scaled by the fp32
// probability of each row: a broadcast product, a sum between dtypes, the experts joined in fp32 and converted back;
// the backward converts twice and has a broadcast product and its sum for bias and for probability.
void output_bias(WorkList& list, const Shape& s, double rows, double experts) {
  const double elements = rows * s.hidden;
  Work& w = list.add(Doing::kStream, Part::kExperts);
  w.forward_elements = 3 * elements;
  w.backward_elements = 4 * elements;
  w.forward_bytes = 8 * elements;
  w.backward_bytes = (2 * s.act + 8) * elements;
  w.forward_kernels = 2 * experts + 2;
  w.backward_kernels = 5 * experts + 2;
}

}  // namespace

void moe_mlp(WorkList& list, const Shape& s, const model::FeedForward& ffn, const megatron::LayerSizes& z,
             bool quantised) {
  const Job& job = s.job;
  const double top = real(ffn.experts_per_token);
  const double experts = real(ffn.experts);
  const double hidden = real(ffn.expert_hidden(job.model.hidden));
  const double routed = real(z.routed) / (s.act * hidden);
  const double width = real(ffn.expert_width) / real(job.expert_tensor());
  const double fan = ffn.gated ? 2 : 1;
  const bool fused = job.moe.permute_fusion;
  const bool one_kernel =
      job.moe.dispatcher == job::DispatcherKind::kHybridEp || job.moe.dispatcher == job::DispatcherKind::kDeepEp;
  gemm(list, s, Part::kRouter, s.stored, experts, s.hidden, false);
  // Scores, softmax, top-k, balancing loss: chains over [tokens, experts] in fp32.
  stream(list, s, Part::kRouter, s.stored * experts * (fused ? 30 : 60), s.stored * experts * (fused ? 30 : 60),
         fused ? 14 : 18, fused ? 10 : 12);
  // Copies out and back, each read once and written once; a second sort by local expert after the exchange.
  if (ffn.latent > 0) gemm(list, s, Part::kRouter, s.stored, hidden, s.hidden, quantised);
  const double copies = s.stored * top * hidden * s.act;
  const double rows = routed * hidden * s.act;
  const bool sorts = z.sorted && !one_kernel;
  const double permuted = 2 * (copies + s.stored * hidden * s.act) + (sorts ? 4 * rows : 2 * rows);
  const double kernels = (fused ? 6.0 : 8.0) + (sorts ? 6 : 2);
  stream(list, s, Part::kRouter, permuted, permuted, kernels, kernels);
  expert_message(list, s, ffn);
  const bool as_one = z.grouped || (s.eager && job.moe.grouped_gemm);
  const double groups = real(z.experts_used);
  grouped(list, s, routed, fan * width, hidden, groups, as_one, quantised);
  activation(list, s, Part::kExpertActivation, ffn, routed * width, as_one || s.eager ? 1 : groups);
  grouped(list, s, routed, hidden, width, groups, as_one, quantised);
  if (ffn.expert_bias && job.is_megatron()) output_bias(list, s, routed, groups);
  expert_message(list, s, ffn);
  if (ffn.latent > 0) gemm(list, s, Part::kRouter, s.stored, s.hidden, hidden, quantised);
  if (ffn.shared_width > 0) {
    const double shared = real(ffn.shared_width) / s.tp;
    column_message(list, s, Part::kShared);
    gemm(list, s, Part::kShared, s.tokens, fan * shared, s.hidden, quantised);
    activation(list, s, Part::kShared, ffn, s.tokens * shared);
    gemm(list, s, Part::kShared, s.tokens, s.hidden, shared, quantised);
    row_message(list, s, Part::kShared);
    stream(list, s, Part::kShared, s.stored * s.hidden * 3 * s.act, s.stored * s.hidden * 2 * s.act, 1, 1);
  }
}

}  // namespace plimsoll::step::work
