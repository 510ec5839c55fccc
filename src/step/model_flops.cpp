// SPDX-License-Identifier: Apache-2.0
// The model-FLOPs convention of Megatron's counter (facts step-time.md 1, checked there against the published
// ratios of TFLOP/s to tokens/s).
#include "step/work.h"

namespace plimsoll::step {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

double attention_products(const model::Architecture& model, const model::Attention& a, double seq) {
  const double h = real(model.hidden);
  const double n = real(a.heads);
  if (a.kind == model::AttentionKind::kMla) {
    const double q = real(a.qk_nope_dim + a.qk_rope_dim);
    const double v = real(a.v_head_dim);
    const double kv_rank = real(a.kv_lora_rank);
    const double q_rank = real(a.q_lora_rank);
    const double query = q_rank > 0 ? q_rank * (h + n * q + 1) : h * n * q;
    return query + kv_rank * (h + n * (real(a.qk_nope_dim) + v) + 1) + h * real(a.qk_rope_dim) + n * v * h +
           seq * n * (q + v) / 2;
  }
  const double d = real(a.head_dim);
  const double projections = h * (n * (a.output_gate ? 2 : 1) + 2 * real(a.kv_heads)) * d + n * d * h;
  if (a.kind == model::AttentionKind::kLinear) {
    const double k = real(a.linear_key_heads * a.linear_key_dim);
    const double v = real(a.linear_value_heads * a.linear_value_dim);
    return h * (2 * k + 2 * v) + v * h + 2 * v * real(a.linear_key_dim);
  }
  const double window = real(a.sliding_window);
  const double core = window > 0 && window < seq ? 2 * window * n * d : seq * n * d;
  return projections + core;
}

double feed_forward_products(const model::Architecture& model, const model::FeedForward& ffn) {
  const double matrices = (ffn.gated ? 3 : 2) * real(model.hidden);
  if (!ffn.is_moe()) return matrices * real(ffn.width);
  return matrices * (real(ffn.expert_width * ffn.experts_per_token) + real(ffn.shared_width));
}

}  // namespace

double model_flops_per_token(const job::Job& job) {
  const model::Architecture& model = job.model;
  const double seq = real(job.batch.seq_length);
  double products = 0;
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    double depth = 0;
    for (const std::uint8_t kind : model.layers) depth += kind == i ? 1 : 0;
    const model::Layer& layer = model.kinds[i];
    const double one = attention_products(model, layer.attention, seq) + feed_forward_products(model, layer.ffn);
    products += depth * one;
    // An MTP depth is one more layer like the last, a projection of two hidden states and a pass of the head.
    if (!model.layers.empty() && model.layers.back() == i)
      products += real(model.mtp_layers) * (one + 2 * real(model.hidden) * real(model.hidden));
  }
  products += real(model.hidden) * real(model.vocab) * (1 + real(model.mtp_layers));
  constexpr double kPasses = 6;  // forward, two gradients; two operations per multiply-add
  return kPasses * products;
}

}  // namespace plimsoll::step
