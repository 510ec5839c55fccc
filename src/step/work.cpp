// SPDX-License-Identifier: Apache-2.0
#include "step/work.h"

#include <algorithm>

#include "step/megatron/sizes.h"

namespace plimsoll::step {

namespace {

using job::Job;

double real(std::int64_t value) { return static_cast<double>(value); }

// Shorthand of one job's splits and fusions.
struct Shape {
  explicit Shape(const Job& j)
      : job(j),
        tokens(real(j.tokens())),
        gathers(j.parallel.sequence_parallel && j.parallel.tensor > 1),
        tp(real(j.parallel.tensor)),
        stored(gathers ? tokens / tp : tokens),
        hidden(real(j.model.hidden)),
        act(real(job::size_of(j.precision.compute))),
        eager(j.kernels.implementation == job::Implementation::kTransformers ||
              j.kernels.implementation == job::Implementation::kTorchtitan),
        compiled(j.kernels.torch_compile || j.kernels.liger) {}

  const Job& job;
  double tokens;  // T
  bool gathers;   // sequence parallelism
  double tp;
  double stored;  // tokens outside the tensor-parallel region
  double hidden;
  double act;  // bytes of an activation element
  bool eager;  // PyTorch modules, nothing fused across operations
  bool compiled;
};

bool trains_base(const Job& job) { return job.adapter.kind == job::AdapterKind::kNone; }

void gemm(WorkList& list, const Shape& s, Part part, double rows, double columns, double depth, bool quantised,
          Cut cut = Cut::kWhole) {
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
}

void stream(WorkList& list, Part part, double forward, double backward, double forward_kernels,
            double backward_kernels) {
  Work& w = list.add(Doing::kStream, part);
  w.forward_bytes = forward;
  w.backward_bytes = backward;
  w.forward_kernels = forward_kernels;
  w.backward_kernels = backward_kernels;
}

// DTensor gathers and scatters along the first dimension; the sequence is the second, so every message is also a
// copy that puts the pieces in order.
void add_reordering(const Shape& s, Work& w) {
  if (!s.eager) return;
  w.forward_bytes = 2 * w.forward_message;
  w.backward_bytes = 2 * (w.backward_message + w.backward_gather);
}

// Before a column-parallel linear: gather forward; scatter the input gradient, and gather the input again for
// the weight gradient, backward. Without sequence parallelism the input gradient is all-reduced.
void column_message(WorkList& list, const Shape& s, Part part) {
  if (s.tp <= 1) return;
  Work& w = list.add(Doing::kMessage, part);
  const double bytes = s.tokens * s.hidden * s.act;
  if (s.gathers) {
    w.forward_message = bytes;
    w.backward_message = bytes;
    if (trains_base(s.job)) w.backward_gather = bytes;
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
    stream(list, Part::kNorm, elements * 14 * r, elements * 24 * r, 6, 14);
  } else {
    stream(list, Part::kNorm, elements * 2 * r, elements * 4 * r, 1, s.job.is_megatron() ? 2 : 3);
  }
}

void residual(WorkList& list, const Shape& s) {
  const double elements = s.stored * s.hidden;
  stream(list, Part::kOther, elements * 3 * s.act, elements * 2 * s.act, 1, 1);
}

void core_attention(WorkList& list, const Shape& s, const model::Attention& a) {
  const Job& job = s.job;
  const double heads = real(a.heads) / s.tp;
  const double seq = real(job.batch.seq_length);
  const bool mla = a.kind == model::AttentionKind::kMla;
  const double qk = real(mla ? a.qk_nope_dim + a.qk_rope_dim : a.head_dim);
  const double v = real(mla ? a.v_head_dim : a.head_dim);
  const double window = real(a.sliding_window);
  double keys = seq / 2;  // the causal half
  if (window > 0 && window < seq) keys = window - window * window / (2 * seq);
  constexpr double kChunk = 64;  // linear attention works inside chunks and on a state
  if (a.kind == model::AttentionKind::kLinear) keys = kChunk + real(std::max(a.linear_key_dim, a.linear_value_dim));
  Work& w = list.add(Doing::kAttention, Part::kCore);
  w.flops = 2 * s.tokens * keys * heads * (qk + v);
  w.head_dim = qk;
  w.forward_kernels = 1;
  w.backward_kernels = 3;
  if (job.kernels.attention == job::AttentionBackend::kUnfused) {
    // Scores, softmax and mask pass through memory.
    const double scores = real(job.batch.micro_batch) * heads * seq * seq / real(job.parallel.context);
    w.flops *= 2;  // no causal skip
    w.forward_bytes = scores * 5 * s.act;
    w.backward_bytes = scores * 6 * s.act;
    w.forward_kernels = 5;
    w.backward_kernels = 8;
  }
}

// facts step-time.md 7, CP. Types may alternate between layers: the list is averaged.
void context_messages(WorkList& list, const Shape& s, const model::Attention& a) {
  const double c = real(s.job.parallel.context);
  if (c <= 1) return;
  const bool mla = a.kind == model::AttentionKind::kMla;
  const double heads = real(a.heads) / s.tp;
  const double groups = mla ? heads : std::max(1.0, real(a.kv_heads) / s.tp);
  const double key = real(mla ? a.qk_nope_dim + a.qk_rope_dim : a.head_dim);
  const double value = real(mla ? a.v_head_dim : a.head_dim);
  const double kv = s.tokens * groups * (key + value) * s.act;
  const double q_and_out = s.tokens * heads * (key + value) * s.act;
  const std::vector<job::CpCommType>& types = s.job.parallel.cp_comm_type;
  for (const job::CpCommType type :
       {job::CpCommType::kP2p, job::CpCommType::kAllGather, job::CpCommType::kA2a, job::CpCommType::kA2aP2p}) {
    const double share = static_cast<double>(std::count(types.begin(), types.end(), type)) /
                         static_cast<double>(std::max<std::size_t>(1, types.size()));
    if (share <= 0) continue;
    Work& w = list.add(Doing::kMessage, Part::kCore);
    w.group = Group::kContext;
    // Every step of the ring is an attention call of its own, with the sums that join it to the others.
    if (type == job::CpCommType::kP2p || type == job::CpCommType::kA2aP2p) {
      w.forward_kernels = 5 * share;
      w.backward_kernels = 8 * share;
    }
    switch (type) {
      case job::CpCommType::kP2p:
        w.forward_pattern = w.backward_pattern = Pattern::kRing;
        w.forward_message = kv * share;
        w.backward_message = 2 * kv * share;
        break;
      case job::CpCommType::kA2aP2p:
      case job::CpCommType::kA2a:
        w.forward_pattern = w.backward_pattern =
            type == job::CpCommType::kA2a ? Pattern::kAllToAll : Pattern::kExchangeAndRing;
        w.forward_message = w.backward_message = (kv + q_and_out) * share;
        w.ring_message = kv * share;  // more tokens of fewer heads
        break;
      case job::CpCommType::kAllGather:
        w.forward_message = kv * c * share;
        w.backward_message = kv * c * share;
        w.backward_gather = kv * c * share;
        break;
    }
  }
}

void rope_and_split(WorkList& list, const Shape& s, const model::Attention& a, double rotated) {
  if (a.qk_norm != model::QkNorm::kNone) stream(list, Part::kNorm, rotated * 2 * s.act, rotated * 4 * s.act, 2, 4);
  if (!s.job.model.rope) return;
  if (s.job.kernels.rope_fusion || s.compiled) {
    stream(list, Part::kOther, rotated * 2 * s.act, rotated * 2 * s.act, 2, 2);
  } else {
    // Two products, the rotated copy and its concatenation, the sum; for queries and keys.
    stream(list, Part::kOther, rotated * 10 * s.act, rotated * 12 * s.act, 12, 16);
  }
}

void attention_gqa(WorkList& list, const Shape& s, const model::Attention& a, bool quantised) {
  const double d = real(a.head_dim);
  double q = real(a.heads) * d / s.tp;
  const double kv = std::max(1.0, real(a.kv_heads) / s.tp) * d;
  if (a.kind == model::AttentionKind::kLinear) {
    q = (real(a.linear_key_heads * a.linear_key_dim) + real(a.linear_value_heads * a.linear_value_dim)) / s.tp;
    gemm(list, s, Part::kLinear, s.tokens, 2 * q, s.hidden, quantised);
    stream(list, Part::kOther, s.tokens * q * 8 * s.act, s.tokens * q * 16 * s.act, 6, 12);
  } else {
    gemm(list, s, Part::kLinear, s.tokens, q * (a.output_gate ? 2 : 1) + 2 * kv, s.hidden, quantised, Cut::kColumns);
    rope_and_split(list, s, a, s.tokens * (q + kv));
  }
  context_messages(list, s, a);
  core_attention(list, s, a);
  if (a.output_gate) stream(list, Part::kOther, s.tokens * q * 3 * s.act, s.tokens * q * 5 * s.act, 2, 3);
  gemm(list, s, Part::kLinear, s.tokens, s.hidden, q, quantised, Cut::kRows);
}

void attention_mla(WorkList& list, const Shape& s, const model::Attention& a, bool quantised) {
  const double heads = real(a.heads) / s.tp;
  const double nope = real(a.qk_nope_dim);
  const double rope = real(a.qk_rope_dim);
  const double value = real(a.v_head_dim);
  const double q_rank = real(a.q_lora_rank);
  const double kv_rank = real(a.kv_lora_rank);
  // Down-projections are whole on every tensor-parallel rank and see its share of the sequence.
  if (q_rank > 0) {
    gemm(list, s, Part::kLinear, s.stored, q_rank, s.hidden, quantised);
    stream(list, Part::kMlaUp, s.stored * q_rank * 2 * s.act, s.stored * q_rank * 4 * s.act, 1, 2);
  }
  gemm(list, s, Part::kMlaUp, s.tokens, heads * (nope + rope), q_rank > 0 ? q_rank : s.hidden, quantised);
  gemm(list, s, Part::kLinear, s.stored, kv_rank + rope, s.hidden, quantised);
  stream(list, Part::kMlaUp, s.stored * kv_rank * 2 * s.act, s.stored * kv_rank * 4 * s.act, 1, 2);
  gemm(list, s, Part::kMlaUp, s.tokens, heads * (nope + value), kv_rank, quantised);
  // Rotation, and keys put together from their two parts.
  stream(list, Part::kMlaUp, s.tokens * heads * (2 * (nope + rope) * 2 + value) * s.act,
         s.tokens * heads * (2 * (nope + rope) * 2 + value) * s.act, s.job.kernels.rope_fusion ? 3 : 12,
         s.job.kernels.rope_fusion ? 4 : 14);
  context_messages(list, s, a);
  core_attention(list, s, a);
  gemm(list, s, Part::kLinear, s.tokens, s.hidden, heads * value, quantised, Cut::kRows);
}

void activation(WorkList& list, const Shape& s, Part part, const model::FeedForward& ffn, double elements) {
  const double fan = ffn.gated ? 2 : 1;
  const bool fused = s.job.kernels.bias_activation_fusion || s.compiled || !ffn.gated;
  if (part == Part::kExpertActivation && ffn.expert_bias) {
    // Bias, clamps, scaled sigmoid and the shifted product, each a pass of its own.
    stream(list, part, elements * 24 * s.act, elements * 40 * s.act, 10, 20);
  } else if (fused) {
    stream(list, part, elements * (fan + 1) * s.act, elements * (2 * fan + 1) * s.act, 1, 1);
  } else {
    stream(list, part, elements * 5 * s.act, elements * 8 * s.act, 2, 4);
  }
}

void dense_mlp(WorkList& list, const Shape& s, const model::FeedForward& ffn, bool quantised) {
  const double width = real(ffn.width) / s.tp;
  const double fan = ffn.gated ? 2 : 1;
  column_message(list, s, Part::kMlp);
  gemm(list, s, Part::kMlp, s.tokens, fan * width, s.hidden, quantised, Cut::kColumns);
  if (s.eager && ffn.gated && !ffn.fused_gate_up) list.add(Doing::kStream, Part::kMlp).forward_kernels = 1;
  activation(list, s, Part::kMlp, ffn, s.tokens * width);
  gemm(list, s, Part::kMlp, s.tokens, s.hidden, width, quantised, Cut::kRows);
  row_message(list, s, Part::kMlp);
}

void expert_message(WorkList& list, const Shape& s, const model::FeedForward& ffn) {
  const Job& job = s.job;
  if (job.parallel.expert * job.expert_tensor() <= 1) return;
  Work& w = list.add(Doing::kMessage, Part::kRouter);
  w.group = Group::kExpert;
  w.forward_pattern = w.backward_pattern = Pattern::kAllToAll;
  const bool merges =
      job.moe.dispatcher == job::DispatcherKind::kDeepEp || job.moe.dispatcher == job::DispatcherKind::kHybridEp;
  const double token = s.stored * s.hidden * s.act;
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
  // A grouped GEMM of Transformer Engine is one call that starts several streams.
  w.forward_kernels = as_one ? 2 : groups;
  w.backward_kernels = as_one ? 4 : 2 * groups;
  if (!s.job.kernels.gradient_accumulation_fusion && s.job.is_megatron() && w.trained) {
    const double main = s.job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
    w.backward_bytes = groups * columns * depth * (2 + 2 * main);
    w.backward_kernels += groups;
  }
}

void moe_mlp(WorkList& list, const Shape& s, const model::FeedForward& ffn, const megatron::LayerSizes& z,
             bool quantised) {
  const Job& job = s.job;
  const double top = real(ffn.experts_per_token);
  const double experts = real(ffn.experts);
  const double routed = real(z.routed) / (s.act * s.hidden);
  const double width = real(ffn.expert_width) / real(job.expert_tensor());
  const double fan = ffn.gated ? 2 : 1;
  const bool fused = job.moe.permute_fusion;
  const bool one_kernel =
      job.moe.dispatcher == job::DispatcherKind::kHybridEp || job.moe.dispatcher == job::DispatcherKind::kDeepEp;
  gemm(list, s, Part::kRouter, s.stored, experts, s.hidden, false);
  // Scores, softmax, top-k, balancing loss: chains over [tokens, experts] in fp32.
  stream(list, Part::kRouter, s.stored * experts * (fused ? 30 : 60), s.stored * experts * (fused ? 30 : 60),
         fused ? 14 : 18, fused ? 10 : 12);
  // Copies out and back, each read once and written once; a second sort by local expert after the exchange.
  const double copies = s.stored * top * s.hidden * s.act;
  const double rows = routed * s.hidden * s.act;
  const bool sorts = z.sorted && !one_kernel;
  const double permuted = 2 * (copies + s.stored * s.hidden * s.act) + (sorts ? 4 * rows : 2 * rows);
  const double kernels = (fused ? 6.0 : 8.0) + (sorts ? 6 : 2);
  stream(list, Part::kRouter, permuted, permuted, kernels, kernels);
  expert_message(list, s, ffn);
  const bool as_one = z.grouped || (s.eager && job.moe.grouped_gemm);
  const double groups = real(z.experts_used);
  grouped(list, s, routed, fan * width, s.hidden, groups, as_one, quantised);
  activation(list, s, Part::kExpertActivation, ffn, routed * width);
  grouped(list, s, routed, s.hidden, width, groups, as_one, quantised);
  expert_message(list, s, ffn);
  if (ffn.shared_width > 0) {
    const double shared = real(ffn.shared_width) / s.tp;
    column_message(list, s, Part::kShared);
    gemm(list, s, Part::kShared, s.tokens, fan * shared, s.hidden, quantised);
    activation(list, s, Part::kShared, ffn, s.tokens * shared);
    gemm(list, s, Part::kShared, s.tokens, s.hidden, shared, quantised);
    row_message(list, s, Part::kShared);
    stream(list, Part::kShared, s.stored * s.hidden * 3 * s.act, s.stored * s.hidden * 2 * s.act, 1, 1);
  }
}

}  // namespace

void layer_work(const Job& job, const model::Layer& layer, bool in_bf16, WorkList& list) {
  const Shape s(job);
  const bool quantised = (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) && !in_bf16;
  list.clear();
  const double hidden = s.stored * s.hidden;
  for (int i = 0; i < (layer.norms + 1) / 2; ++i) norm(list, s, hidden);
  column_message(list, s, Part::kLinear);
  if (layer.attention.kind == model::AttentionKind::kMla) {
    attention_mla(list, s, layer.attention, quantised);
  } else {
    attention_gqa(list, s, layer.attention, quantised);
  }
  row_message(list, s, Part::kLinear);
  residual(list, s);
  for (int i = 0; i < layer.norms / 2; ++i) norm(list, s, hidden);
  if (layer.ffn.is_moe()) {
    moe_mlp(list, s, layer.ffn, megatron::layer_sizes(job, layer, in_bf16), quantised);
  } else {
    dense_mlp(list, s, layer.ffn, quantised);
  }
  if (!layer.parallel_block) residual(list, s);
}

void embedding_work(const Job& job, WorkList& list) {
  const Shape s(job);
  list.clear();
  // Rows are gathered; backward sorts the ids and adds the rows of equal ones into a gradient as large as the
  // table, which is zeroed first and then added to the main gradient.
  double table = 0;
  if (trains_base(job)) {
    const double main = job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
    table = real(job.vocab_rows) / s.tp * s.hidden * (job.is_megatron() ? 2 + 2 + 2 * main : 6);
  }
  stream(list, Part::kOther, s.tokens * s.hidden * 2 * s.act, s.tokens * s.hidden * (s.act + 8) + table, 4, 8);
  if (s.tp > 1) row_message(list, s, Part::kOther);
}

void head_work(const Job& job, WorkList& list) {
  const Shape s(job);
  list.clear();
  norm(list, s, s.stored * s.hidden);
  column_message(list, s, Part::kOther);
  const double rows = real(job.vocab_rows) / s.tp;
  gemm(list, s, Part::kOther, s.tokens, rows, s.hidden, false);
  const double logits = s.tokens * rows;
  switch (job.kernels.loss) {
    case job::LossKind::kTe:  // one kernel, in place on the logits
      stream(list, Part::kOther, logits * 6, logits * 4, 4, 2);
      break;
    case job::LossKind::kNativeFused:
      stream(list, Part::kOther, logits * 18, logits * 8, 10, 4);
      break;
    case job::LossKind::kLiger:
    case job::LossKind::kChunked:
      stream(list, Part::kOther, logits * 12, logits * 6, 16, 8);
      break;
    case job::LossKind::kUnfused:
      stream(list, Part::kOther, logits * 28, logits * 14, 14, 6);
      break;
    case job::LossKind::kTransformers:  // fp32 copy, log-softmax, its gradient, and back
      stream(list, Part::kOther, logits * 26, logits * 18, 6, 6);
      break;
  }
}

void mtp_projection_work(const Job& job, WorkList& list) {
  const Shape s(job);
  list.clear();
  norm(list, s, 2 * s.stored * s.hidden);
  column_message(list, s, Part::kOther);
  gemm(list, s, Part::kOther, s.tokens, s.hidden / s.tp, 2 * s.hidden, false);
}

bool replays(const Job& job, Part part) {
  const job::Recompute& r = job.recompute;
  if (r.granularity == job::RecomputeGranularity::kFull) return true;
  if (r.granularity == job::RecomputeGranularity::kSelectiveOps)
    return part != Part::kCore;  // timing halves the matrix products: every second one is kept
  if (r.granularity != job::RecomputeGranularity::kSelective) return false;
  switch (part) {
    case Part::kNorm:
      return r.modules.layernorm;
    case Part::kMlaUp:
      return r.modules.mla_up_proj;
    case Part::kCore:
      return r.modules.core_attn;
    case Part::kMlp:
      return r.modules.mlp;
    case Part::kRouter:
    case Part::kExperts:
      return r.modules.moe;
    case Part::kExpertActivation:
      return r.modules.moe || r.modules.moe_act;
    case Part::kShared:
      return r.modules.moe || r.modules.shared_experts;
    case Part::kLinear:
    case Part::kOther:
      return false;
  }
  return false;
}

}  // namespace plimsoll::step
