// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.h"

#include "model/parts.h"

namespace plimsoll::model {

namespace {

// 2*h*a*d + 2*h*k*d; the output gate doubles the query projection (facts models.md, Building blocks).
std::int64_t gqa_parameters(std::int64_t hidden, const Attention& a) {
  const std::int64_t query = a.heads * a.head_dim;
  const std::int64_t key = a.shares_keys ? 0 : a.kv_heads * a.head_dim;
  const std::int64_t projected = (a.output_gate ? 2 * query : query) + 2 * key;
  std::int64_t count = hidden * projected + query * hidden;
  if (a.qkv_bias) count += projected;
  if (a.out_bias) count += hidden;
  if (a.sinks) count += a.heads;
  if (!a.qk_norm_has_weight) return count;
  if (a.qk_norm == QkNorm::kPerHead) count += (a.shares_keys ? 1 : 2) * a.head_dim;
  if (a.qk_norm == QkNorm::kFull) count += query + key;
  return count;
}

// Latent projections with their norms, and the indexer (facts models.md, Building blocks). Biases sit
// on the two down projections and on the output.
std::int64_t mla_parameters(std::int64_t hidden, const Attention& a) {
  const std::int64_t query = a.heads * (a.qk_nope_dim + a.qk_rope_dim);
  std::int64_t count = hidden * query;
  if (a.q_lora_rank > 0) count = hidden * a.q_lora_rank + a.q_lora_rank + a.q_lora_rank * query;
  const std::int64_t latent = a.kv_lora_rank + a.qk_rope_dim;
  count += hidden * latent + a.kv_lora_rank + a.kv_lora_rank * a.heads * (a.qk_nope_dim + a.v_head_dim);
  count += a.heads * a.v_head_dim * hidden;
  if (a.qkv_bias) count += a.q_lora_rank + latent;
  if (a.out_bias) count += hidden;
  if (a.index_heads > 0)
    count += a.q_lora_rank * a.index_heads * a.index_head_dim + hidden * a.index_head_dim + 2 * a.index_head_dim +
             hidden * a.index_heads;
  return count;
}

// Gated delta net (facts models.md, Qwen3-Next layers): fused q,k,v,z and b,a projections, the
// convolution over q,k,v, the decay terms A_log and dt_bias, the gated norm, the output projection.
std::int64_t linear_parameters(std::int64_t hidden, const Attention& a) {
  const std::int64_t key = a.linear_key_heads * a.linear_key_dim;
  const std::int64_t value = a.linear_value_heads * a.linear_value_dim;
  return hidden * (2 * key + 2 * value) + 2 * hidden * a.linear_value_heads + (2 * key + value) * a.linear_conv +
         2 * a.linear_value_heads + a.linear_value_dim + value * hidden;
}

// Mamba-2: one projection to gate, convolved channels and steps; the convolution; A, D and the step's bias of every
// head; the gated norm and the projection back.
std::int64_t mamba_parameters(std::int64_t hidden, const StateSpace& m) {
  if (m.is_first_kind()) {
    const std::int64_t inner = m.inner();
    const std::int64_t normed = m.step_norm == StepNorm::kWeighted ? m.step_rank + 2 * m.state : 0;
    return 3 * hidden * inner + inner * m.conv + (m.conv_bias ? inner : 0) + inner * (m.step_rank + 2 * m.state) +
           (m.step_rank + 1) * inner + inner * m.state + inner + normed + (m.bias ? 2 * inner + hidden : 0);
  }
  const std::int64_t projected = m.inner() + m.conv_channels() + m.heads;
  std::int64_t count = hidden * projected + m.conv_channels() * m.conv + 3 * m.heads + m.inner() * hidden;
  if (m.conv_bias) count += m.conv_channels();
  if (m.bias) count += projected + hidden;
  if (m.norm) count += m.inner();
  return count;
}

// LFM2: a projection to both gates and what is convolved, the convolution of every channel, and the projection back.
std::int64_t convolution_parameters(std::int64_t hidden, const Attention& a) {
  return 4 * hidden * hidden + hidden * a.linear_conv + (a.qkv_bias ? 5 * hidden : 0);
}

// MiniMax: one packed projection, a gate on the output, the norm before it and the projection back.
std::int64_t lightning_parameters(std::int64_t hidden, const Attention& a) {
  const std::int64_t width = a.heads * a.head_dim;
  return 5 * hidden * width + width;
}

std::int64_t mlp_parameters(std::int64_t hidden, std::int64_t width, bool gated, bool bias) {
  const std::int64_t up = gated ? 2 * width : width;
  return hidden * up + width * hidden + (bias ? up + hidden : 0);
}

}  // namespace

std::int64_t attention_parameters(const Architecture& model, const Attention& attention) {
  const std::int64_t beside = attention.kind == AttentionKind::kGqa && attention.mamba.heads > 0
                                  ? mamba_parameters(model.hidden, attention.mamba)
                                  : 0;
  switch (attention.kind) {
    case AttentionKind::kGqa:
      return gqa_parameters(model.hidden, attention) + beside;
    case AttentionKind::kMla:
      return mla_parameters(model.hidden, attention);
    case AttentionKind::kLinear:
      return linear_parameters(model.hidden, attention);
    case AttentionKind::kMamba2:
      return mamba_parameters(model.hidden, attention.mamba);
    case AttentionKind::kConvolution:
      return convolution_parameters(model.hidden, attention);
    case AttentionKind::kLightning:
      return lightning_parameters(model.hidden, attention);
    case AttentionKind::kNone:
      return 0;
  }
  return 0;
}

std::int64_t expert_parameters(const Architecture& model, const FeedForward& ffn) {
  return ffn.is_moe() ? mlp_parameters(ffn.expert_hidden(model.hidden), ffn.expert_width, ffn.gated, ffn.expert_bias)
                      : 0;
}

std::int64_t feed_forward_parameters(const Architecture& model, const FeedForward& ffn) {
  std::int64_t count = ffn.width > 0 ? mlp_parameters(model.hidden, ffn.width, ffn.gated, ffn.bias) : 0;
  if (ffn.activation == Activation::kXielu) count += 2;  // its slopes
  if (!ffn.is_moe()) return count;
  count += ffn.experts * expert_parameters(model, ffn);
  if (ffn.latent > 0) count += 2 * model.hidden * ffn.latent + (ffn.bias ? model.hidden + ffn.latent : 0);
  count += model.hidden * ffn.experts + (ffn.router_bias ? ffn.experts : 0);
  if (ffn.shared_width > 0) count += mlp_parameters(model.hidden, ffn.shared_width, ffn.gated, false);
  if (ffn.shared_gate) count += model.hidden;
  return count;
}

std::int64_t norm_parameters(const Architecture& model, std::int64_t width) {
  return model.norm == NormKind::kLayer ? 2 * width : width;
}

std::int64_t layer_parameters(const Architecture& model, const Layer& layer) {
  std::int64_t count = attention_parameters(model, layer.attention) + feed_forward_parameters(model, layer.ffn) +
                       layer.norms * norm_parameters(model, model.hidden) + part_parameters(model, layer);
  if (layer.cross_attention)
    count += attention_parameters(model, layer.attention) + norm_parameters(model, model.hidden);
  return count;
}

std::int64_t embedding_parameters(const Architecture& model) {
  return model.vocab * (model.embedding_dim > 0 ? model.embedding_dim : model.hidden);
}

Parameters count_parameters(const Architecture& model) {
  struct Kind {
    std::int64_t total;
    std::int64_t unvisited;
  };
  std::vector<Kind> of_kind;
  for (const Layer& kind : model.kinds)
    of_kind.push_back({layer_parameters(model, kind),
                       (kind.ffn.experts - kind.ffn.experts_per_token) * expert_parameters(model, kind.ffn)});
  Parameters result;
  result.total = embedding_parameters(model) * (model.tied_embeddings ? 1 : 2) + shared_parameters(model);
  if (model.head_bias) result.total += model.vocab;
  const std::int64_t stacks = model.encoder_depth() > 0 ? 2 : 1;
  result.total += stacks * model.relative_buckets * (model.kinds.empty() ? 0 : model.kinds.front().attention.heads);
  result.total += model.token_types * model.hidden;
  if (model.head == Head::kMasked)
    result.total += model.hidden * model.hidden + (model.kinds.front().ffn.bias ? model.hidden : 0) +
                    norm_parameters(model, model.hidden) + model.vocab;
  if (model.head == Head::kClasses) result.total = model.classes * (model.hidden + 1);
  if (model.head == Head::kScores)
    result.total += model.classes * model.hidden - (model.keeps_language_head ? 0 : embedding_parameters(model));
  if (model.patches > 0)  // convolution with its bias, the class token and a position for each
    result.total += model.hidden * (model.patch_values + 1) + model.hidden * (model.patches + 2);
  if (model.embedding_dim > 0) result.total += 2 * model.embedding_dim * model.hidden;
  // The encoder of an encoder-decoder model has positions and norms of its own.
  result.total += stacks * model.position_rows * model.hidden;
  if (model.embedding_norm) result.total += stacks * norm_parameters(model, model.hidden);
  if (model.final_norm) result.total += stacks * norm_parameters(model, model.hidden);
  std::int64_t unvisited = 0;
  for (const std::uint8_t kind : model.layers) {
    result.total += of_kind[kind].total;
    unvisited += of_kind[kind].unvisited;
  }
  result.active = result.total - unvisited;
  // The layers of a depth, the projection of [norm(h), norm(embedding)] and three norms.
  if (model.mtp_layers > 0 && !model.layers.empty()) {
    std::int64_t depth = 2 * model.hidden * model.hidden + 3 * norm_parameters(model, model.hidden);
    for (const std::uint8_t kind : model.mtp_depth()) depth += of_kind[kind].total;
    result.mtp = model.mtp_weights() * depth;
  }
  return result;
}

}  // namespace plimsoll::model
