// SPDX-License-Identifier: Apache-2.0
#include "inference/weights.h"

#include <algorithm>

#include "base/checked.h"
#include "model/parameters.h"
#include "model/parts.h"

namespace plimsoll::inference {

namespace {

using model::Attention;
using model::AttentionKind;

// Matrices of one GPU: their elements, and their rows, since a scale belongs to a row of the output.
struct Matrices {
  double elements = 0;
  double rows = 0;

  void add(double out, double in) {
    elements += out * in;
    rows += out;
  }
};

// Bytes of a quantised matrix. Scales: one fp32 per output row for 8 bits; for 4 bits one 16-bit scale and one 4-bit
// zero per group of 128 along the input.
double quantised_bytes(const Matrices& m, WeightType type) {
  constexpr double kScale = 4;
  constexpr double kGroup = 128;
  switch (type) {
    case WeightType::kBf16:
      return 2 * m.elements;
    case WeightType::kFp32:
      return 4 * m.elements;
    case WeightType::kFp8:
    case WeightType::kInt8:
      return m.elements + kScale * m.rows;
    case WeightType::kInt4:
      return m.elements * (0.5 + 2.5 / kGroup);
  }
  return 0;
}

// Norms, embedding, head, routers and biases stay in the model's own type.
double plain_bytes(WeightType type) { return type == WeightType::kFp32 ? 4 : 2; }

// Projections are cut by columns, then rows; key/value heads fewer than GPUs are copied (facts rl-and-inference.md 4);
// the down projections of latent attention are on every GPU.
Matrices attention_matrices(const Server& server, const Attention& a) {
  const auto h = static_cast<double>(server.model.hidden);
  const auto tp = static_cast<double>(server.tensor);
  Matrices m;
  switch (a.kind) {
    case AttentionKind::kGqa: {
      const double query = static_cast<double>(a.heads * a.head_dim) / tp;
      const auto kv = static_cast<double>(std::max<std::int64_t>(1, a.kv_heads / server.tensor) * a.head_dim);
      m.add((a.output_gate ? 2 * query : query) + (a.shares_keys ? 0 : 2 * kv), h);
      m.add(h, query);
      break;
    }
    case AttentionKind::kMla: {
      const auto heads = static_cast<double>(a.heads) / tp;
      const double query = heads * static_cast<double>(a.qk_nope_dim + a.qk_rope_dim);
      const auto rank = static_cast<double>(a.kv_lora_rank);
      if (a.q_lora_rank > 0) {
        m.add(static_cast<double>(a.q_lora_rank), h);
        m.add(query, static_cast<double>(a.q_lora_rank));
      } else {
        m.add(query, h);
      }
      m.add(rank + static_cast<double>(a.qk_rope_dim), h);
      m.add(heads * static_cast<double>(a.qk_nope_dim + a.v_head_dim), rank);
      m.add(h, heads * static_cast<double>(a.v_head_dim));
      if (a.index_heads > 0) {
        m.add(static_cast<double>(a.index_heads * a.index_head_dim), static_cast<double>(a.q_lora_rank));
        m.add(static_cast<double>(a.index_head_dim + a.index_heads), h);
      }
      break;
    }
    case AttentionKind::kLinear: {
      const double key = static_cast<double>(a.linear_key_heads * a.linear_key_dim) / tp;
      const double value = static_cast<double>(a.linear_value_heads * a.linear_value_dim) / tp;
      m.add(2 * key + 2 * value + 2 * static_cast<double>(a.linear_value_heads) / tp, h);
      m.add(h, value);
      break;
    }
    case AttentionKind::kMamba2: {
      const double inner = static_cast<double>(a.mamba.inner()) / tp;
      m.add(inner + static_cast<double>(a.mamba.conv_channels() + a.mamba.heads) / tp, h);
      m.add(h, inner);
      break;
    }
    case AttentionKind::kConvolution:
      m.add(3 * h / tp, h);
      m.add(h, h / tp);
      break;
    case AttentionKind::kLightning: {
      const double width = static_cast<double>(a.heads * a.head_dim) / tp;
      m.add(4 * width, h);
      m.add(h, width);
      break;
    }
    case AttentionKind::kNone:
      break;
  }
  return m;
}

// vLLM absorbs the up projections of latent attention into two extra 16-bit matrices for decoding and keeps the
// originals for prefill.
double absorbed_bytes(const Server& server, const Attention& a) {
  if (a.kind != AttentionKind::kMla || server.engine != Engine::kVllm) return 0;
  return plain_bytes(server.weights) * static_cast<double>(a.kv_lora_rank) * static_cast<double>(a.heads) /
         static_cast<double>(server.tensor) * static_cast<double>(a.qk_nope_dim + a.v_head_dim);
}

Matrices mlp_matrices(const Server& server, std::int64_t hidden, std::int64_t width, bool gated) {
  const auto h = static_cast<double>(hidden);
  const double per_gpu = static_cast<double>(width) / static_cast<double>(server.tensor);
  Matrices m;
  if (width > 0) {
    m.add(gated ? 2 * per_gpu : per_gpu, h);
    m.add(h, per_gpu);
  }
  return m;
}

struct LayerBytes {
  double dense = 0;
  double experts = 0;
};

LayerBytes layer_bytes(const Server& server, const model::Layer& layer) {
  const model::FeedForward& ffn = layer.ffn;
  Matrices dense = attention_matrices(server, layer.attention);
  for (const std::int64_t width : {ffn.width, ffn.is_moe() ? ffn.shared_width : 0}) {
    const Matrices mlp = mlp_matrices(server, server.model.hidden, width, ffn.gated);
    dense.elements += mlp.elements;
    dense.rows += mlp.rows;
  }
  LayerBytes bytes;
  bytes.dense = quantised_bytes(dense, server.weights) + absorbed_bytes(server, layer.attention);
  const auto hidden = static_cast<double>(server.model.hidden);
  const auto norms = static_cast<double>(layer.norms * model::norm_parameters(server.model, server.model.hidden));
  // Biases, query/key norms and convolutions are far below a thousandth of a layer; its norms stand for them.
  bytes.dense +=
      plain_bytes(server.weights) * (norms + static_cast<double>(model::part_parameters(server.model, layer)));
  if (ffn.is_moe()) {
    const Matrices expert = mlp_matrices(server, ffn.expert_hidden(server.model.hidden), ffn.expert_width, ffn.gated);
    bytes.experts = static_cast<double>(ffn.experts) * quantised_bytes(expert, server.weights);
    // The router, and the projections to a latent width and back.
    bytes.dense += plain_bytes(server.weights) * hidden * static_cast<double>(ffn.experts + 2 * ffn.latent);
  }
  return bytes;
}

// One matrix of the vocabulary, its rows padded to 64 per GPU and cut over the GPUs.
double vocabulary_bytes(const Server& server) {
  const std::int64_t rows = round_up(ceil_div(server.model.vocab, server.tensor), 64);
  const std::int64_t width = server.model.embedding_dim > 0 ? server.model.embedding_dim : server.model.hidden;
  return plain_bytes(server.weights) * static_cast<double>(rows) * static_cast<double>(width);
}

}  // namespace

StageWeights stage_weights(const Server& server, std::int64_t first, std::int64_t count) {
  StageWeights weights;
  std::vector<LayerBytes> of_kind;
  for (const model::Layer& kind : server.model.kinds) of_kind.push_back(layer_bytes(server, kind));
  for (std::int64_t i = first; i < first + count; ++i) {
    const LayerBytes& bytes = of_kind[server.model.layers[static_cast<std::size_t>(i)]];
    weights.layers += bytes.dense;
    weights.experts += bytes.experts;
  }
  const bool is_first = first == 0;
  const bool is_last = first + count == server.model.depth();
  if (is_last) weights.head = vocabulary_bytes(server);
  if (is_first && !(server.model.tied_embeddings && is_last)) weights.embedding = vocabulary_bytes(server);
  if (is_first)
    weights.embedding +=
        plain_bytes(server.weights) *
        static_cast<double>(server.model.position_rows * server.model.hidden + model::shared_parameters(server.model));
  return weights;
}

ActiveWeights active_weights(const Server& server) {
  ActiveWeights active;
  std::vector<ActiveWeights> of_kind;
  for (const model::Layer& layer : server.model.kinds) {
    const std::int64_t expert = model::expert_parameters(server.model, layer.ffn);
    const std::int64_t all = model::layer_parameters(server.model, layer);
    of_kind.push_back({static_cast<double>(all - layer.ffn.experts * expert),
                       static_cast<double>(layer.ffn.experts_per_token) * static_cast<double>(expert), 0});
  }
  for (const std::uint8_t kind : server.model.layers) {
    active.layers += of_kind[kind].layers;
    active.experts += of_kind[kind].experts;
  }
  active.head = static_cast<double>(model::embedding_parameters(server.model));
  return active;
}

}  // namespace plimsoll::inference
