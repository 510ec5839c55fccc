// SPDX-License-Identifier: Apache-2.0
// The model-FLOPs convention of Megatron's counter (facts step-time.md 1, checked there against the published
// ratios of TFLOP/s to tokens/s).
#include "job/hybrid_model.h"
#include "model/parts.h"
#include "step/work.h"

namespace plimsoll::step {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Multiply-adds per token: with weights, and between activations.
struct Products {
  double linear = 0;
  double core = 0;
};

// Megatron's counter takes twice the hidden size for the width of every mixer, whatever its heads make, and seven
// operations for each channel and state (facts step-time.md 1).
Products counted_mixer(const model::Architecture& model, const model::StateSpace& m) {
  const double h = real(model.hidden);
  const double inner = 2 * h;
  return {h * (2 * inner + 2 * real(m.groups * m.state) + real(m.heads)) + inner * h, 3.5 * inner * real(m.state)};
}

Products attention_products(const model::Architecture& model, const model::Attention& a, double seq) {
  const double h = real(model.hidden);
  const double n = real(a.heads);
  if (a.kind == model::AttentionKind::kMla) {
    const double q = real(a.qk_nope_dim + a.qk_rope_dim);
    const double v = real(a.v_head_dim);
    const double kv_rank = real(a.kv_lora_rank);
    const double q_rank = real(a.q_lora_rank);
    const double query = q_rank > 0 ? q_rank * (h + n * q + 1) : h * n * q;
    return {query + kv_rank * (h + n * (real(a.qk_nope_dim) + v) + 1) + h * real(a.qk_rope_dim) + n * v * h,
            seq * n * (q + v) / 2};
  }
  const double d = real(a.head_dim);
  if (a.kind == model::AttentionKind::kLinear) {
    const double k = real(a.linear_key_heads * a.linear_key_dim);
    const double v = real(a.linear_value_heads * a.linear_value_dim);
    return {h * (2 * k + 2 * v) + v * h, 2 * v * real(a.linear_key_dim)};
  }
  if (a.kind == model::AttentionKind::kNone) return {};
  if (a.kind == model::AttentionKind::kConvolution) return {4 * h * h, h * real(a.linear_conv)};
  if (a.kind == model::AttentionKind::kLightning) return {5 * h * n * d, 2 * n * d * (d + real(a.linear_block) / 2)};
  if (a.kind == model::AttentionKind::kMamba2 && a.mamba.is_first_kind()) {
    const double inner = real(a.mamba.inner());
    return {3 * h * inner + inner * real(2 * a.mamba.step_rank + 2 * a.mamba.state), 2 * inner * real(a.mamba.state)};
  }
  if (a.kind == model::AttentionKind::kMamba2) {
    const double inner = real(a.mamba.inner());
    return {h * (2 * inner + 2 * real(a.mamba.groups * a.mamba.state) + real(a.mamba.heads)) + inner * h,
            2 * inner * real(a.mamba.state)};
  }
  const double window = real(a.sliding_window);
  return {h * (n * (a.output_gate ? 2 : 1) + (a.shares_keys ? 0 : 2 * real(a.kv_heads))) * d + n * d * h,
          window > 0 && window < seq ? 2 * window * n * d : seq * n * d};
}

double feed_forward_products(const model::Architecture& model, const model::FeedForward& ffn) {
  const double matrices = ffn.gated ? 3 : 2;
  const double hidden = real(model.hidden);
  if (!ffn.is_moe()) return matrices * hidden * real(ffn.width);
  return matrices * (real(ffn.expert_hidden(model.hidden)) * real(ffn.expert_width * ffn.experts_per_token) +
                     hidden * real(ffn.shared_width)) +
         2 * hidden * real(ffn.latent);
}

// What a layer runs beside its own attention and MLP: a block that it shares, products of several residual streams.
Products part_products(const model::Architecture& model, const model::Layer& layer, double seq) {
  Products sum;
  sum.linear = real(model::part_parameters(model, layer));
  if (layer.shared_block > 0 && model.shared_block != nullptr) {
    const model::SharedBlock& block = *model.shared_block;
    const double wide = real(block.attention.heads * block.attention.head_dim);
    const double keys = real(block.attention.kv_heads * block.attention.head_dim);
    sum.linear += real(model.hidden) * (3 * wide + 4 * keys) + feed_forward_products(model, block.ffn);
    sum.core += seq * wide;
  }
  if (model.streams != nullptr) {
    const double n = real(model.streams->count);
    sum.core += real(model.hidden) * n * n;
    sum.linear += (real(model.hidden) + 1) * real(model.streams->per_layer_width);  // the layer's part of one product
  }
  return sum;
}

}  // namespace

double model_flops_per_token(const job::Job& job) {
  const model::Architecture& model = job.model;
  const double seq = real(job.batch.seq_length);
  Products sum;
  const bool hybrid = job.is_megatron() && job::is_hybrid(model);
  const std::vector<std::uint8_t> mtp = model.mtp_depth();
  // Of hybrid models the counter leaves out that projection.
  if (!mtp.empty() && !hybrid) sum.linear += real(model.mtp_layers) * 2 * real(model.hidden) * real(model.hidden);
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    double depth = 0;
    for (const std::uint8_t kind : model.layers) depth += kind == i ? 1 : 0;
    const model::Attention& attention = model.kinds[i].attention;
    const bool counts_mixer = hybrid && attention.kind == model::AttentionKind::kMamba2;
    Products one = counts_mixer ? counted_mixer(model, attention.mamba) : attention_products(model, attention, seq);
    one.linear += feed_forward_products(model, model.kinds[i].ffn);
    const Products beside = part_products(model, model.kinds[i], seq);
    one.linear += beside.linear;
    one.core += beside.core;
    // An MTP depth has layers of its own, a projection of two hidden states and a pass of the head.
    for (const std::uint8_t kind : mtp) depth += kind == i ? real(model.mtp_layers) : 0;
    sum.linear += depth * one.linear;
    sum.core += depth * one.core;
  }
  const std::int64_t outputs = model.head == model::Head::kScores ? model.classes : model.vocab;
  sum.linear += real(model.hidden) * real(outputs) * (1 + real(model.mtp_layers));
  // Two operations per multiply-add; forward and two gradients, of which frozen weights need one.
  const double passes = job.adapter.kind == job::AdapterKind::kNone ? 6 : 4;
  return passes * sum.linear + 6 * sum.core;
}

}  // namespace plimsoll::step
