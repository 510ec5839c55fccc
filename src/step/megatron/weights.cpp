// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/weights.h"

#include <algorithm>

#include "step/megatron/adapter.h"

namespace plimsoll::step::megatron {

namespace {

class Collector {
 public:
  Collector(const job::Job& job, std::vector<Weight>& weights) : job_(job), out_(weights), tp_(job.parallel.tensor) {}

  void norm(std::int64_t width) {
    vector(width);
    if (job_.model.norm == model::NormKind::kLayer) vector(width);
  }
  void vector(std::int64_t elements) { out_.push_back({elements, false, false, false, in_layer_, false}); }
  void matrix(std::int64_t elements) { out_.push_back({elements, true, false, quantised_, in_layer_, false}); }
  void embedding(bool copy) {
    out_.push_back({job_.vocab_rows / tp_ * job_.model.hidden, true, false, false, false, copy});
  }

  void attention(const model::Attention& a) {
    const std::int64_t h = job_.model.hidden;
    if (a.kind == model::AttentionKind::kMla) return mla(a);
    if (a.kind == model::AttentionKind::kLinear) return delta_net(a);
    if (a.kind == model::AttentionKind::kMamba2) return mixer(a.mamba);
    matrix(a.heads * a.head_dim * h / tp_);
    if (a.out_bias) vector(h);
    const std::int64_t outputs = (a.heads * (a.output_gate ? 2 : 1) + 2 * a.kv_heads) * a.head_dim / tp_;
    matrix(outputs * h);
    if (a.qkv_bias) vector(outputs);
    if (a.qk_norm != model::QkNorm::kNone && a.qk_norm_has_weight) {
      norm(a.qk_norm == model::QkNorm::kPerHead ? a.head_dim : a.heads * a.head_dim / tp_);
      norm(a.qk_norm == model::QkNorm::kPerHead ? a.head_dim : a.kv_heads * a.head_dim / tp_);
    }
    if (a.sinks) vector(a.heads / tp_);
  }

  // facts megatron-memory.md 4.9: a norm, queries of the one side, keys and values of the other.
  void cross_attention(const model::Attention& a) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t width = a.heads * a.head_dim / tp_;
    norm(h);
    matrix(width * h);
    if (a.qkv_bias) vector(width);
    matrix(2 * width * h);
    if (a.qkv_bias) vector(2 * width);
    matrix(width * h);
    if (a.out_bias) vector(h);
  }

  // What stands between the final norm and the output layer, and the output layer's bias.
  void masked_head() {
    const std::int64_t h = job_.model.hidden;
    matrix(h * h);
    vector(h);
    norm(h);
    if (!job_.model.pooled_pairs) return;
    matrix(2 * h);  // does one sentence follow the other
    vector(2);
    matrix(h * h);  // the pooled first token
    vector(h);
  }

  void delta_net(const model::Attention& a) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t keys = a.linear_key_heads * a.linear_key_dim / tp_;
    const std::int64_t values = a.linear_value_heads * a.linear_value_dim / tp_;
    const std::int64_t heads = a.linear_value_heads / tp_;
    matrix((2 * keys + 2 * values + 2 * heads) * h);
    vector((2 * keys + values) * a.linear_conv);
    vector(heads);  // dt_bias
    vector(heads);  // A_log
    vector(a.linear_value_dim);
    matrix(values * h);
  }

  // facts megatron-memory.md 2.8: everything is split with the heads and groups. In the order of the constructor.
  void mixer(const model::StateSpace& m) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t heads = m.heads / tp_;
    const std::int64_t channels = m.conv_channels() / tp_;
    out_.push_back({channels * m.conv, true, false, false, in_layer_, false});  // the convolution's weight
    vector(channels);
    vector(heads);  // dt_bias
    vector(heads);  // A_log
    vector(heads);  // D
    matrix((m.inner() + m.conv_channels() + m.heads) / tp_ * h);
    vector(m.inner() / tp_);  // gated norm
    matrix(m.inner() / tp_ * h);
  }

  // The down-projections are replicated on every TP rank.
  void mla(const model::Attention& a) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t qk = a.qk_nope_dim + a.qk_rope_dim;
    matrix(a.heads * a.v_head_dim * h / tp_);
    if (a.q_lora_rank > 0) {
      matrix(h * a.q_lora_rank);
      matrix(a.q_lora_rank * a.heads * qk / tp_);
    } else {
      matrix(h * a.heads * qk / tp_);
    }
    matrix(h * (a.kv_lora_rank + a.qk_rope_dim));
    matrix(a.kv_lora_rank * a.heads * (a.qk_nope_dim + a.v_head_dim) / tp_);
    if (a.q_lora_rank > 0) norm(a.q_lora_rank);
    norm(a.kv_lora_rank);
  }

  void dense(const model::FeedForward& f) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t fan = f.gated ? 2 : 1;
    matrix(fan * f.width / tp_ * h);
    if (f.bias) vector(fan * f.width / tp_);
    matrix(f.width / tp_ * h);
    if (f.bias) vector(h);
  }

  void moe(const model::FeedForward& f) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t fan = f.gated ? 2 : 1;
    const std::int64_t width = f.expert_width / job_.expert_tensor();
    const std::int64_t e_h = f.expert_hidden(h);
    // Experts share the dense buffers unless their domain differs (facts megatron-memory.md 2.3).
    const bool own_domain = job_.parallel.expert > 1 || job_.expert_tensor() != tp_;
    out_.push_back({h * f.experts, true, false, false, in_layer_, false});
    if (f.router_bias) vector(f.experts);
    for (int i = 0; i < 2 && f.latent > 0; ++i) {  // whole on every rank (facts megatron-memory.md 4.11)
      matrix(f.latent * h);
      if (f.bias) vector(i == 0 ? f.latent : h);
    }
    for (std::int64_t e = 0; e < f.experts / job_.parallel.expert; ++e) {
      out_.push_back({fan * width * e_h, true, own_domain, quantised_, in_layer_, false});
      if (f.expert_bias) out_.push_back({fan * width, false, own_domain, false, in_layer_, false});
      out_.push_back({width * e_h, true, own_domain, quantised_, in_layer_, false});
      if (f.expert_bias) out_.push_back({e_h, false, own_domain, false, in_layer_, false});
    }
    if (f.shared_width > 0) {
      matrix(fan * f.shared_width / tp_ * h);
      matrix(f.shared_width / tp_ * h);
      if (f.shared_gate) vector(h);
    }
  }

  // first_last_layers_bf16 keeps a layer's weights out of quantisation.
  void layer(const model::Layer& l, bool in_bf16) {
    in_layer_ = true;
    quantised_ = !in_bf16;
    const std::int64_t h = job_.model.hidden;
    norm(h);
    if (l.has_mixer()) attention(l.attention);
    if (l.cross_attention) cross_attention(l.attention);
    if (l.norms > 1) norm(h);
    for (int extra = 2; extra < l.norms; ++extra) norm(h);
    if (l.ffn.is_moe()) {
      moe(l.ffn);
    } else if (!l.ffn.is_empty()) {
      dense(l.ffn);
    }
    in_layer_ = false;
    quantised_ = true;
  }

 private:
  const job::Job& job_;
  std::vector<Weight>& out_;
  std::int64_t tp_;
  bool in_layer_ = false;
  bool quantised_ = true;
};

void base_weights(const job::Job& job, const job::Chunk& chunk, std::int64_t stage, std::vector<Weight>& weights) {
  weights.clear();
  weights.reserve(static_cast<std::size_t>(8 * chunk.num_layers + 8));
  Collector collect(job, weights);
  const std::int64_t h = job.model.hidden;
  const job::Precision& p = job.precision;
  const auto in_bf16 = [&](std::int64_t layer) {
    return p.first_last_layers_bf16 &&
           (layer < p.bf16_layers_at_start || layer >= job.model.depth() - p.bf16_layers_at_end);
  };
  const bool first = chunk.has_embedding;
  // A rank with MTP but without the first stage holds another copy of the word embedding.
  if (first || chunk.mtp_layers > 0) {
    collect.embedding(!first && stage > 0);
    // The output layer adds to a tied one with the first product of a backward pass, where products add by themselves.
    weights.back().is_late = !job.model.tied_embeddings || !job.kernels.gradient_accumulation_fusion;
  }
  if (first && job.model.position_rows > 0)
    weights.push_back({job.model.position_rows * h, true, false, false, false, false});
  if (first && job.model.token_types > 0)
    weights.push_back({job.model.token_types * h, true, false, false, false, false});
  for (std::int64_t i = 0; i < chunk.num_layers; ++i)
    collect.layer(job.model.layer(chunk.first_layer + i), in_bf16(chunk.first_layer + i));
  if (job.model.encoder_depth() > 0) collect.norm(h);  // the encoder's own
  for (std::int64_t m = 0; m < (job.model.mtp_repeats ? std::min<std::int64_t>(1, chunk.mtp_layers) : chunk.mtp_layers);
       ++m) {
    collect.norm(h);
    collect.norm(h);
    collect.matrix(2 * h * h / job.parallel.tensor);
    for (const std::uint8_t kind : job.model.mtp_depth())
      collect.layer(job.model.kinds[kind], in_bf16(job.model.depth() - 1));
    collect.norm(h);
  }
  if (!chunk.has_loss) return;
  collect.norm(h);
  if (job.model.head == model::Head::kMasked) collect.masked_head();
  if (job.model.head_bias) collect.vector(job.vocab_rows / job.parallel.tensor);
  const bool tied = job.model.tied_embeddings;
  if (!tied) collect.embedding(false);
  if (tied && !first && chunk.mtp_layers == 0) collect.embedding(true);
}

// With adapters every base weight is frozen, and each adapted linear of a layer gets one trainable tensor.
void freeze_and_adapt(const job::Job& job, const job::Chunk& chunk, std::vector<Weight>& weights) {
  const AdaptedLinears adapted = adapted_linears(job);
  if (!adapted.any) return;
  for (Weight& weight : weights) weight.frozen = true;
  const std::int64_t h = job.model.hidden;
  const auto add = [&](bool on, std::int64_t in, std::int64_t out, bool column) {
    if (on) weights.push_back({adapter_elements(job, in, out, column), true, false, false, true, false, false});
  };
  for (std::int64_t i = 0; i < chunk.num_layers; ++i) {
    const model::Layer& layer = job.model.layer(chunk.first_layer + i);
    const model::Attention& a = layer.attention;
    const bool attends = a.kind != model::AttentionKind::kLinear;  // a delta net's modules have other names
    add(adapted.qkv && attends, h, (a.heads + 2 * a.kv_heads) * a.head_dim, true);
    add(adapted.proj && attends, a.heads * a.head_dim, h, false);
    const std::int64_t width = layer.ffn.is_moe() ? layer.ffn.shared_width : layer.ffn.width;
    if (width == 0) continue;
    add(adapted.fc1, h, (layer.ffn.gated ? 2 : 1) * width, true);
    add(adapted.fc2, width, h, false);
  }
}

}  // namespace

void chunk_weights(const job::Job& job, const job::Chunk& chunk, std::int64_t stage, std::vector<Weight>& weights) {
  base_weights(job, chunk, stage, weights);
  freeze_and_adapt(job, chunk, weights);
}

std::int64_t count(const std::vector<Weight>& weights) {
  std::int64_t sum = 0;
  for (const Weight& w : weights) sum += w.elements;
  return sum;
}

}  // namespace plimsoll::step::megatron
