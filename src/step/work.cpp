// SPDX-License-Identifier: Apache-2.0
#include "step/work.h"

#include "job/effective.h"
#include "step/work_calls.h"
#include "step/work_parts.h"

namespace plimsoll::step {

using namespace work;  // NOLINT(google-build-using-namespace): the other half of this file

namespace {

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

// Queries of the decoder's tokens; keys and values of the encoder's.
void cross_attention(WorkList& list, const Shape& s, const Job& encoder, const model::Attention& a, bool quantised) {
  const double from = real(encoder.tokens());
  const double q = real(a.heads) * real(a.head_dim) / s.tp;
  norm(list, s, s.stored * s.hidden);
  column_message(list, s, Part::kLinear);
  gemm(list, s, Part::kLinear, s.tokens, q, s.hidden, quantised, Cut::kColumns);
  gemm(list, s, Part::kLinear, from, 2 * q, s.hidden, quantised, Cut::kColumns);
  Work& w = list.add(Doing::kAttention, Part::kCore);
  w.keys = real(encoder.batch.seq_length);
  w.flops = 4 * s.tokens * w.keys * q;
  w.head_dim = real(a.head_dim);
  w.forward_kernels = 1;
  w.backward_kernels = 3;
  gemm(list, s, Part::kLinear, s.tokens, s.hidden, q, quantised, Cut::kRows);
  row_message(list, s, Part::kLinear);
  residual(list, s);
}

// Self-attention and MLP, at the job's length.
void own_work(const Job& job, const model::Layer& layer, bool in_bf16, WorkList& list) {
  const Shape s(job);
  const bool quantised = (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) && !in_bf16;
  list.clear();
  const double hidden = s.stored * s.hidden;
  for (int i = 0; i < (layer.norms + 1) / 2; ++i) norm(list, s, hidden);
  if (layer.has_mixer()) {
    column_message(list, s, Part::kLinear);
    if (layer.attention.kind == model::AttentionKind::kMla) {
      attention_mla(list, s, layer.attention, quantised);
    } else if (layer.attention.kind == model::AttentionKind::kMamba2) {
      mamba_mixer(list, s, layer.attention.mamba, quantised);
    } else {
      attention_gqa(list, s, layer.attention, quantised);
    }
    row_message(list, s, Part::kLinear);
    residual(list, s);
  }
  for (int i = 0; i < layer.norms / 2; ++i) norm(list, s, hidden);
  // Transformer Engine's one module of norm and projection is not taken apart by recompute_modules layernorm.
  if (layer.attention.kind == model::AttentionKind::kMamba2) list.give_to(Part::kMixer);
  if (layer.ffn.is_empty()) return;
  if (layer.ffn.is_moe()) {
    moe_mlp(list, s, layer.ffn, megatron::layer_sizes(job, layer, in_bf16), quantised);
  } else {
    dense_mlp(list, s, layer.ffn, quantised);
  }
  if (!layer.parallel_block) residual(list, s);
}

// Megatron's fp8_output_proj, which MXFP8 alone allows.
bool quantises_head(const Job& job) {
  const auto stated = job.stated.find("fp8_output_proj");
  return job.precision.fp8 == job::Fp8Recipe::kMxfp8 && stated != job.stated.end() && stated->second == "true";
}

}  // namespace

void layer_work(const Job& job, const model::Layer& layer, bool in_bf16, WorkList& list) {
  if (!layer.cross_attention) return own_work(job, layer, in_bf16, list);
  const Job decoder = megatron::at_decoder(job);
  own_work(decoder, layer, in_bf16, list);
  const bool quantised = (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) && !in_bf16;
  cross_attention(list, Shape(decoder), job, layer.attention, quantised);
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
  stream(list, s, Part::kOther, s.tokens * s.hidden * 2 * s.act, s.tokens * s.hidden * (s.act + 8) + table, 4, 8);
  if (s.tp > 1) row_message(list, s, Part::kOther);
}

void head_work(const Job& job, WorkList& list) {
  Shape s(job);
  if (job.model.encoder_depth() > 0 && job.batch.decoder_length > 0) {
    const double share = real(job.batch.decoder_length) / real(job.batch.seq_length);
    s.tokens *= share;
    s.stored *= share;
  }
  list.clear();
  norm(list, s, s.stored * s.hidden);
  column_message(list, s, Part::kOther);
  const double rows = real(job.vocab_rows) / s.tp;
  gemm(list, s, Part::kOther, s.tokens, rows, s.hidden, quantises_head(job));
  const double logits = s.tokens * rows;
  switch (job.kernels.loss) {
    case job::LossKind::kTe:  // one kernel, in place on the logits
      stream(list, s, Part::kOther, logits * 6, logits * 4, 4, 2);
      break;
    case job::LossKind::kNativeFused:
      stream(list, s, Part::kOther, logits * 18, logits * 8, 10, 4);
      if (s.local) work::set_calls(list.last(), work::kFusedLossCalls);
      break;
    case job::LossKind::kLiger:
    case job::LossKind::kChunked:
      stream(list, s, Part::kOther, logits * 12, logits * 6, 16, 8);
      break;
    case job::LossKind::kUnfused:
      stream(list, s, Part::kOther, logits * 28, logits * 14, 14, 6);
      break;
    case job::LossKind::kTransformers:  // fp32 copy, log-softmax, its gradient, and back
      stream(list, s, Part::kOther, logits * 26, logits * 18, 6, 6);
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
      return job::recomputes_norms(job);
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
    case Part::kMixer:
    case Part::kOther:
      return false;
  }
  return false;
}

}  // namespace plimsoll::step
