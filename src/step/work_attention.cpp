// SPDX-License-Identifier: Apache-2.0
// What attention computes and sends: grouped and latent projections, the core, and context parallelism.
#include <algorithm>

#include "step/work_calls.h"
#include "step/work_parts.h"

namespace plimsoll::step::work {

namespace {

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
  if (a.kind == model::AttentionKind::kMamba2) keys = kChunk + real(a.mamba.state);
  if (a.kind == model::AttentionKind::kLinear) keys = kChunk + real(std::max(a.linear_key_dim, a.linear_value_dim));
  if (a.kind == model::AttentionKind::kConvolution) keys = real(a.linear_conv);
  if (a.kind == model::AttentionKind::kLightning) keys = real(a.linear_block) / 2 + real(a.head_dim);
  Work& w = list.add(Doing::kAttention, Part::kCore);
  w.flops = 2 * s.tokens * keys * heads * (qk + v);
  w.head_dim = qk;
  w.value_dim = v;
  w.keys = keys;
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
  const bool one_call = job.kernels.attention != job::AttentionBackend::kUnfused;
  if (s.local)
    set_calls(w, one_call ? kAttentionCalls
                          : Calls{kPlainCalls.forward * w.forward_kernels, kPlainCalls.backward * w.backward_kernels});
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
      // The result so far is read and written in fp32 with each part; the backward adds up gradients of q, k and v.
      const double parts = type == job::CpCommType::kP2p ? c - 1 : 1;
      w.forward_bytes = parts * s.tokens * heads * value * (8 + s.act) * share;
      w.backward_bytes = parts * (s.tokens * heads * key + s.tokens * groups * (key + value)) * 3 * s.act * share;
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
  if (a.qk_norm != model::QkNorm::kNone) stream(list, s, Part::kNorm, rotated * 2 * s.act, rotated * 4 * s.act, 2, 4);
  if (!s.job.model.rope) return;
  if (s.job.kernels.rope_fusion || s.compiled) {
    stream(list, s, Part::kOther, rotated * 2 * s.act, rotated * 2 * s.act, 2, 2);
  } else {
    // Two products, the rotated copy and its concatenation, the sum; for queries and keys.
    stream(list, s, Part::kOther, rotated * 10 * s.act, rotated * 12 * s.act, 12, 16);
  }
}

}  // namespace

void attention_gqa(WorkList& list, const Shape& s, const model::Attention& a, bool quantised) {
  const double d = real(a.head_dim);
  double q = real(a.heads) * d / s.tp;
  const double kv = std::max(1.0, real(a.kv_heads) / s.tp) * d;
  if (a.kind == model::AttentionKind::kLinear) {
    q = (real(a.linear_key_heads * a.linear_key_dim) + real(a.linear_value_heads * a.linear_value_dim)) / s.tp;
    gemm(list, s, Part::kLinear, s.tokens, 2 * q, s.hidden, quantised);
    stream(list, s, Part::kOther, s.tokens * q * 8 * s.act, s.tokens * q * 16 * s.act, 6, 12);
  } else {
    gemm(list, s, Part::kLinear, s.tokens, q * (a.output_gate ? 2 : 1) + 2 * kv, s.hidden, quantised, Cut::kColumns);
    rope_and_split(list, s, a, s.tokens * (q + kv));
  }
  context_messages(list, s, a);
  core_attention(list, s, a);
  if (a.output_gate) stream(list, s, Part::kOther, s.tokens * q * 3 * s.act, s.tokens * q * 5 * s.act, 2, 3);
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
    stream(list, s, Part::kMlaUp, s.stored * q_rank * 2 * s.act, s.stored * q_rank * 4 * s.act, 1, 2);
  }
  gemm(list, s, Part::kMlaUp, s.tokens, heads * (nope + rope), q_rank > 0 ? q_rank : s.hidden, quantised);
  gemm(list, s, Part::kLinear, s.stored, kv_rank + rope, s.hidden, quantised);
  stream(list, s, Part::kMlaUp, s.stored * kv_rank * 2 * s.act, s.stored * kv_rank * 4 * s.act, 1, 2);
  gemm(list, s, Part::kMlaUp, s.tokens, heads * (nope + value), kv_rank, quantised);
  // Rotation, and keys put together from their two parts.
  stream(list, s, Part::kMlaUp, s.tokens * heads * (2 * (nope + rope) * 2 + value) * s.act,
         s.tokens * heads * (2 * (nope + rope) * 2 + value) * s.act, s.job.kernels.rope_fusion ? 3 : 12,
         s.job.kernels.rope_fusion ? 4 : 14);
  context_messages(list, s, a);
  core_attention(list, s, a);
  gemm(list, s, Part::kLinear, s.tokens, s.hidden, heads * value, quantised, Cut::kRows);
}

}  // namespace plimsoll::step::work
