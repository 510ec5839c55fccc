// SPDX-License-Identifier: Apache-2.0
// Formulas: facts megatron-anatomy.md 2 and 3 (local), megatron-memory.md 4 (Transformer Engine, FP8, MoE).
#include "step/megatron/sizes.h"

#include <algorithm>

#include "base/checked.h"
#include "model/softmax_attention.h"
#include "step/megatron/adapter.h"
#include "step/megatron/sizes_parts.h"

namespace plimsoll::step::megatron {

namespace {

// What the attention kernel's backward asks for beyond its arrays, in every recorded history.
constexpr std::int64_t kScratchRest = 256;

using job::Job;

void fill_attention_gqa(const Job& job, const model::Attention& attention, const Shape& s, bool fp8, LayerSizes& z) {
  const std::int64_t heads = attention.heads / s.tp;
  const std::int64_t groups = std::max<std::int64_t>(1, attention.kv_heads / s.tp);
  const std::int64_t d = attention.head_dim;
  z.q = s.act_bytes * heads * d * s.tokens;
  z.k = s.act_bytes * groups * d * s.tokens;
  z.v = z.k;
  z.qkv = z.q * (attention.output_gate ? 2 : 1) + 2 * z.k;
  z.out = z.q;
  if (groups > 1 && attention.heads > attention.kv_heads) z.query_copy = z.q;
  if (attention.qk_norm != model::QkNorm::kNone) {
    z.qk_norm_input = z.q + z.k;
    z.qk_norm_stats = 4 * (heads + groups) * s.tokens;
  }
  if (attention.output_gate) z.gate = 2 * z.q;
  z.w_qkv = s.param_bytes * job.model.hidden *
            (attention.heads * (attention.output_gate ? 2 : 1) + 2 * attention.kv_heads) * d / s.tp;
  z.w_proj = s.param_bytes * attention.heads * d * job.model.hidden / s.tp;
  // facts megatron-anatomy.md 3.3: fp32 dq, bf16 expanded dk and dv where k < a, row sums.
  const std::int64_t expanded = attention.kv_heads < attention.heads ? 4 * heads * d : 0;
  z.attention_scratch = (4 * heads * d + expanded + 4 * heads) * s.tokens + kScratchRest;
  if (fp8 && job.precision.fp8_attention) {
    z.q /= 2;
    z.k /= 2;
    z.v /= 2;
  }
}

void fill_attention_mla(const Job& job, const model::Attention& attention, const Shape& s, LayerSizes& z) {
  const std::int64_t heads = attention.heads / s.tp;
  const std::int64_t qk = attention.qk_nope_dim + attention.qk_rope_dim;
  z.mla = true;
  z.q = s.act_bytes * heads * qk * s.tokens;
  z.k = z.q;
  z.v = s.act_bytes * heads * attention.v_head_dim * s.tokens;
  z.qkv = s.act_bytes * heads * (attention.qk_nope_dim + attention.v_head_dim) * s.tokens;  // kv up-projection output
  z.out = z.v;
  z.q_latent = s.act_bytes * attention.q_lora_rank * s.tokens_stored;
  z.kv_latent = s.act_bytes * (attention.kv_lora_rank + attention.qk_rope_dim) * s.tokens_stored;
  z.kv_latent_norm = s.act_bytes * attention.kv_lora_rank * s.tokens_stored;
  z.k_rope = s.act_bytes * attention.qk_rope_dim * s.tokens;
  const std::int64_t hidden = job.model.hidden;
  const std::int64_t q_in = attention.q_lora_rank > 0 ? attention.q_lora_rank : hidden;
  z.w_down = s.param_bytes * hidden * std::max(attention.q_lora_rank, attention.kv_lora_rank + attention.qk_rope_dim);
  z.w_qkv = s.param_bytes * heads *
            std::max(q_in * qk, attention.kv_lora_rank * (attention.qk_nope_dim + attention.v_head_dim));
  z.w_proj = s.param_bytes * heads * attention.v_head_dim * hidden;
  z.attention_scratch = (4 * heads * qk + 4 * heads) * s.tokens;
}

// FusedScaleMaskSoftmax.forward_torch_softmax of Megatron's own attention: float(), mask, softmax, back to 16 bits. The
// one kernel that it falls back from keeps 16 bits only (facts megatron-memory.md 4.3).
bool keeps_fp32_softmax(const Job& job) {
  const job::Kernels& kernels = job.kernels;
  return kernels.implementation == job::Implementation::kLocal && !kernels.masked_softmax_fusion &&
         (kernels.softmax_in_fp32 || kernels.scales_queries_by_layer) && job::size_of(job.precision.compute) < 4;
}

void fill_scores(const Job& job, std::int64_t heads, LayerSizes& z) {
  const std::int64_t scores = job.batch.micro_batch * heads * job.batch.seq_length * job.batch.seq_length;
  z.scores = job::size_of(job.precision.compute) * scores;
  if (keeps_fp32_softmax(job)) z.softmax = 4 * scores;
  if (job.model.attention_dropout > 0) {
    z.scores_mask = scores;
    z.scores_dropped = z.scores;
  }
  z.lse = 0;
  z.attention_scratch = 0;
}

void fill_context_parallel(const Job& job, LayerSizes& z) {
  const std::int64_t cp = job.parallel.context;
  if (cp <= 1) return;
  // The types may alternate between layers; a buffer lives for one layer, so the largest counts.
  for (const job::CpCommType type : job.parallel.cp_comm_type) {
    switch (type) {
      case job::CpCommType::kP2p:
      case job::CpCommType::kA2aP2p:  // two K,V receive buffers of the ring
        z.cp_buffer = std::max(z.cp_buffer, 2 * (z.k + z.v));
        break;
      case job::CpCommType::kAllGather:
        z.cp_buffer = std::max(z.cp_buffer, (z.k + z.v) * cp);
        break;
      case job::CpCommType::kA2a:  // same bytes before and after the exchange
        break;
    }
  }
}

void fill_dense(const Job& job, const model::FeedForward& ffn, const Shape& s, bool in_bf16, LayerSizes& z) {
  const std::int64_t width = ffn.width / s.tp;
  const std::int64_t fan = ffn.gated ? 2 : 1;
  z.fc1 = s.act_bytes * fan * width * s.tokens;
  z.fc1_saved = job.precision.fp8_activation_store && ffn.gated ? z.fc1 / 2 : z.fc1;
  z.act = s.act_bytes * width * s.tokens;
  z.act_saved = saved_gemm_input(job, width * s.tokens, in_bf16);
  if (!job.kernels.bias_activation_fusion && ffn.gated) z.glu_extra = z.act;
  z.w_fc1 = s.param_bytes * fan * width * job.model.hidden;
  z.w_fc2 = s.param_bytes * width * job.model.hidden;
}

void fill_moe(const Job& job, const model::FeedForward& ffn, const Shape& s, bool in_bf16, LayerSizes& z) {
  const std::int64_t hidden = ffn.expert_hidden(job.model.hidden);
  const std::int64_t et = job.expert_tensor();
  const std::int64_t fan = ffn.gated ? 2 : 1;
  const std::int64_t width = ffn.expert_width / et;
  const std::int64_t copies = s.tokens_stored * ffn.experts_per_token;
  z.experts = ffn.experts / job.parallel.expert;
  z.experts_used = z.experts;
  z.grouped = job.moe.grouped_gemm && job.kernels.implementation == job::Implementation::kTransformerEngine;
  z.sorted = z.experts > 1;
  // Balanced: every rank receives as many copies as it sends, times the expert-TP gather
  // (facts megatron-memory.md 4.6).
  double landed = static_cast<double>(copies * et) * job.moe.imbalance;
  if (job.moe.capacity_factor && *job.moe.capacity_factor > 0) {
    const double capacity = static_cast<double>(copies * et) * *job.moe.capacity_factor;
    landed = job.moe.pad_to_capacity ? capacity : std::min(landed, capacity);
  }
  if (job.moe.every_peer_routes_here) {
    landed = static_cast<double>(copies * job.parallel.expert * et);
    z.experts_used = std::min(z.experts, ffn.experts_per_token);
  }
  const auto routed = static_cast<std::int64_t>(landed);
  z.permuted = s.act_bytes * hidden * copies;
  z.routed = s.act_bytes * hidden * routed;
  z.routed_saved = z.grouped ? saved_gemm_input(job, hidden * routed, in_bf16) : z.routed;
  z.expert_fc1 = s.act_bytes * fan * width * routed;
  z.expert_act = s.act_bytes * width * routed;
  z.expert_act_saved = z.grouped ? saved_gemm_input(job, width * routed, in_bf16) : z.expert_act;
  const bool fused = (job.kernels.bias_activation_fusion && ffn.gated) ||
                     (job.kernels.weighted_squared_relu_fusion && ffn.activation == model::Activation::kSquaredRelu &&
                      !ffn.gated && !ffn.expert_bias);
  if (!fused) z.expert_act_extra = z.expert_act;
  const bool te = job.kernels.implementation == job::Implementation::kTransformerEngine;
  const std::int64_t router_bytes = job.moe.router_fp32 ? 4 : s.act_bytes;
  z.probs = (te ? 4 : 2) * routed;
  // Logits, scores, probabilities and map; index of the chosen experts.
  z.router_kept =
      (te ? (3 * router_bytes + 1) * ffn.experts : (2 * s.act_bytes + 1) * ffn.experts + 8 * ffn.experts_per_token) *
      s.tokens_stored;
  z.sort_index = te ? (job.moe.permute_fusion ? 4 * (2 * ffn.experts + 1) * s.tokens_stored : 8 * routed)
                    : 8 * ffn.experts * s.tokens_stored;
  if (ffn.shared_width > 0) {
    z.shared_fc1 = s.act_bytes * fan * ffn.shared_width / s.tp * s.tokens;
    z.shared_act = s.act_bytes * ffn.shared_width / s.tp * s.tokens;
    z.w_shared_fc1 = s.param_bytes * fan * ffn.shared_width / s.tp * job.model.hidden;
    z.w_shared_fc2 = s.param_bytes * ffn.shared_width / s.tp * job.model.hidden;
  }
  if (ffn.latent > 0) {  // facts megatron-memory.md 4.11
    z.latent = s.act_bytes * hidden * s.tokens_stored;
    z.latent_saved = saved_gemm_input(job, job.model.hidden * s.tokens_stored, in_bf16);
    if (z.latent_saved == s.act_bytes * job.model.hidden * s.tokens_stored) z.latent_saved = 0;  // the norm's output
    z.latent_out = saved_gemm_input(job, hidden * s.tokens_stored, in_bf16);
    z.w_latent = s.param_bytes * hidden * job.model.hidden;
  }
  if (job.moe.dispatcher == job::DispatcherKind::kAllGather)
    z.gathered_tokens = s.act_bytes * hidden * s.tokens_stored * job.parallel.expert * et;
  z.w_expert_fc1 = s.param_bytes * fan * width * hidden;
  z.w_expert_fc2 = s.param_bytes * width * hidden;
}

// facts megatron-memory.md 4.9: queries of the decoder's tokens, keys and values of the encoder's.
void fill_cross(const Job& encoder, const Job& decoder, const model::Attention& a, bool fp8, LayerSizes& z) {
  const Shape from = shape_of(encoder);
  const Shape s = shape_of(decoder);
  const std::int64_t heads = a.heads / s.tp;
  CrossSizes& c = z.cross;
  c.q = c.out = s.act_bytes * heads * a.head_dim * s.tokens;
  c.kv = 2 * s.act_bytes * heads * a.head_dim * from.tokens;
  c.lse = 4 * heads * s.tokens;
  c.scratch = (4 * heads * a.head_dim + 4 * heads) * s.tokens + kScratchRest;
  c.context = from.act_bytes * encoder.model.hidden * from.tokens_stored;
  c.context_full = from.act_bytes * encoder.model.hidden * from.tokens;
  if (fp8) c.context_saved = saved_gemm_input(encoder, encoder.model.hidden * from.tokens_stored, false);
  c.w_q = s.param_bytes * encoder.model.hidden * heads * a.head_dim;
  c.w_kv = 2 * c.w_q;
  c.w_proj = c.w_q;
  if (decoder.kernels.attention != job::AttentionBackend::kUnfused) return;
  const std::int64_t scores = decoder.batch.micro_batch * heads * decoder.batch.seq_length * encoder.batch.seq_length;
  c.scores = s.act_bytes * scores;
  if (keeps_fp32_softmax(decoder)) c.softmax = 4 * scores;
  if (encoder.model.attention_dropout > 0) {
    c.scores_mask = scores;
    c.scores_dropped = c.scores;
  }
  c.lse = c.scratch = 0;
}

// A delta net's activations are counted as those of full attention with its heads (unmodelled.cpp says so).
model::Layer with_heads(model::Layer layer) {
  model::Attention& a = layer.attention;
  if (a.kind != model::AttentionKind::kLinear) return layer;
  a.heads = a.kv_heads = a.linear_value_heads;
  a.head_dim = std::max(a.linear_key_dim, a.linear_value_dim);
  a.output_gate = true;
  return layer;
}

// A frozen linear saves no input; an adapter does, and under sequence parallelism the gathered one
// unless it gathers again in backward. Weight gradients are the adapters' own.
void freeze_base(const Job& job, const model::Layer& layer, const Shape& s, LayerSizes& z) {
  const AdaptedLinears adapted = adapted_linears(job);
  if (!adapted.any) return;
  const std::int64_t hidden = job.model.hidden;
  const std::int64_t input = job.adapter.regather_input ? s.act_bytes * hidden * s.tokens_stored : z.hf;
  const std::int64_t grad_bytes = job::size_of(job.precision.params);
  const model::Attention& a = layer.attention;
  const std::int64_t qkv = (a.heads + 2 * a.kv_heads) * a.head_dim;
  const auto gradient = [&](bool on, std::int64_t in, std::int64_t out, bool column) {
    return on ? grad_bytes * adapter_elements(job, in, out, column) : 0;
  };
  const bool attends = a.kind != model::AttentionKind::kLinear;  // a delta net's modules have other names
  z.norm_weight = 0;
  z.norm1_saved = adapted.qkv && attends ? input : 0;
  z.w_qkv = gradient(adapted.qkv && attends, hidden, qkv, true);
  z.w_proj = gradient(adapted.proj && attends, a.heads * a.head_dim, hidden, false);
  if (layer.ffn.is_moe()) {
    z.w_expert_fc1 = z.w_expert_fc2 = z.w_shared_fc1 = z.w_shared_fc2 = 0;
    return;
  }
  z.norm2_saved = adapted.fc1 ? input : 0;
  if (!adapted.fc2) z.act_saved = 0;
  z.w_fc1 = gradient(adapted.fc1, hidden, (layer.ffn.gated ? 2 : 1) * layer.ffn.width, true);
  z.w_fc2 = gradient(adapted.fc2, layer.ffn.width, hidden, false);
}

}  // namespace

Choices choices_of(const Job& job) {
  Choices c;
  c.te = job.kernels.implementation == job::Implementation::kTransformerEngine;
  c.gathers = job.parallel.sequence_parallel && job.parallel.tensor > 1;
  c.unfused_attention = job.kernels.attention == job::AttentionBackend::kUnfused;
  c.rope = job.model.rope;
  c.fused_rope = job.kernels.rope_fusion;
  c.wgrad_fusion = job.kernels.gradient_accumulation_fusion;
  c.bias_dropout_fusion = job.kernels.bias_dropout_fusion;
  c.compiled_kernels = job.kernels.bias_activation_fusion || job.kernels.loss == job::LossKind::kNativeFused;
  if (job.recompute.granularity == job::RecomputeGranularity::kSelective) c.recompute = job.recompute.modules;
  if (job.offload.fine_grained) {
    c.offload = job.offload.modules;
    c.smallest_offloaded = job.offload.min_tensor_elements * job::size_of(job.precision.compute);
  }
  return c;
}

namespace {

void fill_attention(const Job& job, const model::Layer& layer, const Shape& s, bool fp8, bool in_bf16, LayerSizes& z) {
  const std::int64_t heads = layer.attention.heads / s.tp;
  z.lse = 4 * heads * s.tokens;
  if (layer.attention.kind == model::AttentionKind::kMla) {
    fill_attention_mla(job, layer.attention, s, z);
  } else {
    fill_attention_gqa(job, layer.attention, s, fp8, z);
  }
  if (fp8 && !in_bf16) z.out_saved = saved_gemm_input(job, z.out / s.act_bytes, in_bf16);
  // facts megatron-memory.md 4.1 row 5: FlashAttention copies between [s,b] and [b,s] for b > 1; cuDNN does not.
  const bool te = job.kernels.implementation == job::Implementation::kTransformerEngine;
  if (te && job.kernels.attention == job::AttentionBackend::kFlash && job.batch.micro_batch > 1) z.out_copy = z.out;
  const std::int64_t rope_dim = z.mla ? layer.attention.qk_rope_dim : layer.attention.head_dim;
  z.rope_half = 2 * job.batch.seq_length / job.parallel.context * rope_dim;
  if (job.kernels.attention == job::AttentionBackend::kUnfused) fill_scores(job, heads, z);
  fill_context_parallel(job, z);
}

LayerSizes sizes_at_length(const Job& job, const model::Layer& given, bool in_bf16) {
  const model::Layer layer = with_heads(given);
  const Shape s = shape_of(job);
  LayerSizes z;
  const std::int64_t hidden = job.model.hidden;
  const std::int64_t residual_bytes = job.precision.fp32_residual ? 4 : s.act_bytes;
  z.h = residual_bytes * hidden * s.tokens_stored;
  z.hf = s.act_bytes * hidden * s.tokens;
  z.norm1_saved = z.norm2_saved = saved_gemm_input(job, hidden * s.tokens_stored, in_bf16);
  z.stats = (job.model.norm == model::NormKind::kRms ? 4 : 8) * s.tokens_stored;
  z.norm_weight = s.param_bytes * hidden;
  if (job.model.hidden_dropout > 0) z.dropout_mask = hidden * s.tokens_stored;

  const bool fp8 = job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4;
  z.has_mixer = layer.has_mixer();
  z.has_feed_forward = !layer.ffn.is_empty();
  if (layer.attention.kind == model::AttentionKind::kMamba2) {
    fill_mixer(job, layer.attention.mamba, s, in_bf16, z);
  } else if (z.has_mixer) {
    fill_attention(job, layer, s, fp8, in_bf16, z);
  }
  if (layer.ffn.is_moe()) {
    fill_moe(job, layer.ffn, s, in_bf16, z);
  } else {
    fill_dense(job, layer.ffn, s, in_bf16, z);
  }
  freeze_base(job, layer, s, z);
  return z;
}

}  // namespace

Job at_decoder(const Job& job) {
  Job decoder = job;
  if (job.batch.decoder_length > 0) decoder.batch.seq_length = job.batch.decoder_length;
  return decoder;
}

LayerSizes layer_sizes(const Job& job, const model::Layer& layer, bool in_bf16) {
  if (!layer.cross_attention) return sizes_at_length(job, layer, in_bf16);
  const Job decoder = at_decoder(job);
  LayerSizes z = sizes_at_length(decoder, layer, in_bf16);
  const bool fp8 = (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) && !in_bf16;
  fill_cross(job, decoder, layer.attention, fp8, z);
  return z;
}

EndSizes end_sizes(const Job& job) {
  const Shape s = shape_of(job);
  EndSizes e;
  const std::int64_t hidden = job.model.hidden;
  e.h = (job.precision.fp32_residual ? 4 : s.act_bytes) * hidden * s.tokens_stored;
  e.hf = s.act_bytes * hidden * s.tokens;
  e.stats = (job.model.norm == model::NormKind::kRms ? 4 : 8) * s.tokens_stored;
  e.norm_weight = s.param_bytes * hidden;
  e.tokens = 8 * s.tokens;
  e.positions = 8 * job.batch.seq_length / job.parallel.context;
  e.attention_mask = job.kernels.mask_in_dataloader
                         ? job.batch.micro_batch * job.batch.seq_length * job.batch.seq_length / job.parallel.context
                         : 0;
  e.tp = s.tp > 1;
  e.masked_ids = e.tp ? 8 * s.tokens : 0;
  if (job.model.embedding_dropout > 0 || job.model.hidden_dropout > 0) e.embedding_mask = hidden * s.tokens_stored;
  const std::int64_t rows = job.vocab_rows / s.tp;
  // facts megatron-anatomy.md 3.3: the embedding's backward sorts only above 3072 tokens.
  if (s.tokens > 3072) e.embedding_scratch = 4 * hidden * (s.tokens / 10 + std::min(s.tokens, rows));
  e.logits = job::size_of(job.kernels.logits) * rows * s.tokens;
  e.logits_fp32 = 4 * rows * s.tokens;
  e.w_head = s.param_bytes * rows * hidden;
  e.w_embedding = e.w_head;
  e.w_positions = s.param_bytes * job.model.position_rows * hidden;
  if (job.adapter.kind != job::AdapterKind::kNone) e.w_head = e.w_embedding = e.w_positions = e.norm_weight = 0;
  e.w_mtp_projection = s.param_bytes * 2 * hidden * hidden / s.tp;
  e.loss_small = 4 * s.tokens;
  if (job.model.token_types > 0) e.token_types = 8 * s.tokens;
  if (job.model.head == model::Head::kMasked) {
    e.masked_head = true;
    e.w_transform = s.param_bytes * hidden * hidden;
  }
  if (job.model.rope) {
    const model::Attention& attention = model::softmax_attention(job.model);
    const std::int64_t dim = attention.kind == model::AttentionKind::kMla ? attention.qk_rope_dim : attention.head_dim;
    e.rope_table = 4 * job.batch.seq_length * dim;
  }
  e.autotune = job.cluster.gpu.l2_bytes;
  e.tied_here = job.model.tied_embeddings && job.parallel.pipeline == 1;
  e.loss = job.kernels.loss;
  return e;
}

}  // namespace plimsoll::step::megatron
