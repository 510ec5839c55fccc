// SPDX-License-Identifier: Apache-2.0
#include "step/work_parts.h"

#include "step/work_calls.h"

namespace plimsoll::step::work {

void gemm(WorkList& list, const Shape& s, Part part, double rows, double columns, double depth, bool quantised,
          Cut cut) {
  Work& w = list.add(Doing::kGemm, part);
  w.cut = s.tp > 1 ? cut : Cut::kWhole;
  w.rows = rows;
  w.columns = columns;
  w.depth = depth;
  w.quantised = quantised;
  w.trained = trains_base(s.job);
  w.forward_kernels = 1;
  w.backward_kernels = w.trained ? 2 : 1;
  // Without fused accumulation the weight gradient is written, then added to the main gradient.
  if (w.trained && !s.job.kernels.gradient_accumulation_fusion && s.job.is_megatron()) {
    const double main = s.job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
    w.backward_bytes = columns * depth * (2 + 2 * main);
    w.backward_kernels += 1;
  } else if (w.trained && !s.job.is_megatron() && s.job.micro_batches > 1) {
    w.backward_bytes = columns * depth * 3 * real(job::size_of(s.job.precision.params));
    w.backward_kernels += 1;
  }
  if (s.local) set_calls(w, {kLinearCalls.forward, w.trained ? kLinearCalls.backward : kFrozenLinearBackward});
}

void stream(WorkList& list, const Shape& s, Part part, double forward, double backward, double forward_kernels,
            double backward_kernels) {
  Work& w = list.add(Doing::kStream, part);
  w.forward_bytes = forward;
  w.backward_bytes = backward;
  w.forward_kernels = forward_kernels;
  w.backward_kernels = backward_kernels;
  if (s.local) set_calls(w, {kPlainCalls.forward * forward_kernels, kPlainCalls.backward * backward_kernels});
}

void compiled_function(WorkList& list, const Shape& s, Part part, double forward, double backward, double times) {
  Work& w = list.add(Doing::kStream, part);
  w.forward_bytes = forward;
  w.backward_bytes = backward;
  w.forward_kernels = w.backward_kernels = times;
  if (s.local) set_calls(w, kCompiledCalls, times);
}

namespace {

// DTensor gathers and scatters along the first dimension; the sequence is the second, so every message is also a
// copy that puts the pieces in order.
void add_reordering(const Shape& s, Work& w) {
  if (!s.eager) return;
  w.forward_bytes = 2 * w.forward_message;
  w.backward_bytes = 2 * (w.backward_message + w.backward_gather);
}

}  // namespace

// Before a column-parallel linear: gather forward; scatter the input gradient, and gather the input again for
// the weight gradient, backward. Without sequence parallelism the input gradient is all-reduced.
void column_message(WorkList& list, const Shape& s, Part part) {
  if (s.tp <= 1) return;
  Work& w = list.add(Doing::kMessage, part);
  const double bytes = s.tokens * s.hidden * s.act;
  if (s.gathers) {
    w.forward_message = bytes;
    w.backward_message = bytes;
    if (trains_base(s.job) && !s.eager) w.backward_gather = bytes;  // DTensor keeps the gathered input
  } else {
    w.backward_pattern = Pattern::kAllReduce;
    w.backward_message = bytes;
    return;
  }
  add_reordering(s, w);
}

// After a row-parallel linear.
void row_message(WorkList& list, const Shape& s, Part part) {
  if (s.tp <= 1) return;
  Work& w = list.add(Doing::kMessage, part);
  const double bytes = s.tokens * s.hidden * s.act;
  w.forward_message = bytes;
  if (s.gathers) {
    w.forward_pattern = Pattern::kReduceScatter;
    w.backward_pattern = Pattern::kAllGather;
    w.backward_message = bytes;
    add_reordering(s, w);
  } else {
    w.forward_pattern = Pattern::kAllReduce;
  }
}

void norm(WorkList& list, const Shape& s, double elements) {
  // Fused: read and write; backward reads gradient, input and the residual's gradient, writes one.
  // Transformers' RMSNorm is a chain in fp32.
  const bool chain = s.eager && !s.compiled && s.job.model.norm == model::NormKind::kRms &&
                     s.job.kernels.implementation == job::Implementation::kTransformers;
  const double r = s.act;
  if (chain) {
    stream(list, s, Part::kNorm, elements * 14 * r, elements * 24 * r, 6, 14);
  } else {
    stream(list, s, Part::kNorm, elements * 2 * r, elements * 4 * r, 1, s.job.is_megatron() ? 2 : 3);
    if (s.local) set_calls(list.last(), kNormCalls);
  }
}

void residual(WorkList& list, const Shape& s) {
  const double elements = s.stored * s.hidden;
  compiled_function(list, s, Part::kOther, elements * 3 * s.act, elements * 2 * s.act);
}

namespace {

// GPT-OSS in Megatron: the two halves are clamped as strided views and put together again before the one compiled
// kernel; backward makes masks of both, selects by them and joins the halves (facts step-time.md 5).
void clamped_activation(WorkList& list, double elements) {
  Work& w = list.add(Doing::kStream, Part::kExpertActivation);
  w.forward_elements = 2 * elements;
  w.backward_elements = 5 * elements;
  w.forward_bytes = (8 + 6) * elements;        // joined; the kernel itself
  w.backward_bytes = (10 + 3 + 8) * elements;  // the kernel itself, one mask of two, joined
  w.forward_kernels = 4;
  w.backward_kernels = 8;
}

}  // namespace

void activation(WorkList& list, const Shape& s, Part part, const model::FeedForward& ffn, double elements,
                double times) {
  const double fan = ffn.gated ? 2 : 1;
  const bool fused = s.job.kernels.bias_activation_fusion || s.compiled || !ffn.gated;
  if (part == Part::kExpertActivation && ffn.expert_bias) {
    clamped_activation(list, elements);
  } else if (fused) {
    compiled_function(list, s, part, elements * (fan + 1) * s.act, elements * (2 * fan + 1) * s.act, times);
  } else {
    stream(list, s, part, elements * 5 * s.act, elements * 8 * s.act, 2 * times, 4 * times);
  }
}

}  // namespace plimsoll::step::work
