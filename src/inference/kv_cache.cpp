// SPDX-License-Identifier: Apache-2.0
#include "inference/kv_cache.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "inference/versions.h"

namespace plimsoll::inference {

namespace {

using model::Attention;
using model::AttentionKind;

// A scale of fp32 for each head of a token where integers are quantised per token and head; for NVFP4 one byte per 16.
double vector_bytes(const Server& server, double elements) {
  constexpr double kScale = 4;
  switch (server.kv) {
    case KvType::kInt8:
    case KvType::kInt4:
      return elements * kv_element_bytes(server) + kScale;
    case KvType::kNvfp4:
      return elements * kv_element_bytes(server) + elements / 16;
    case KvType::kAuto:
    case KvType::kBf16:
    case KvType::kFp32:
    case KvType::kFp8:
      return elements * kv_element_bytes(server);
  }
  return 0;
}

std::int64_t whole(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); }

struct LayerCache {
  CacheKind kind = CacheKind::kFull;
  std::int64_t window = 0;
  std::int64_t page = 0;  // bytes of a block in one layer
};

// A state of fixed size instead of keys and values of every token.
bool keeps_state(const Attention& attention) {
  return attention.kind == AttentionKind::kLinear || attention.kind == AttentionKind::kMamba2 ||
         attention.kind == AttentionKind::kConvolution || attention.kind == AttentionKind::kLightning;
}

LayerCache layer_cache(const Server& server, const Attention& attention, std::int64_t block_size) {
  if (keeps_state(attention)) return {CacheKind::kState, 0, layer_state_bytes(server, attention)};
  const std::int64_t page = block_size * layer_bytes_per_token(server, attention);
  const bool by_kind = server.engine == Engine::kVllm && server.version >= kHybridCache;
  if (attention.sliding_window > 0 && by_kind) return {CacheKind::kWindow, attention.sliding_window, page};
  return {CacheKind::kFull, 0, page};
}

struct Bucket {
  CacheKind kind = CacheKind::kFull;
  std::int64_t window = 0;
  std::int64_t layers = 0;
};

// vLLM: the fewest layers of any kind are the size of a group, or the most where the two are close, since the last
// group of each kind is padded.
std::int64_t group_size(const Server& server, const std::vector<Bucket>& buckets) {
  std::int64_t least = buckets.front().layers;
  std::int64_t most = least;
  for (const Bucket& bucket : buckets) {
    least = std::min(least, bucket.layers);
    most = std::max(most, bucket.layers);
  }
  const double close = server.version < kWiderGroups ? 1.25 : 1.5;
  return static_cast<double>(most) < close * static_cast<double>(least) ? most : least;
}

}  // namespace

double kv_element_bytes(const Server& server) {
  switch (server.kv) {
    case KvType::kAuto:
      return server.weights == WeightType::kFp32 ? 4 : 2;
    case KvType::kBf16:
      return 2;
    case KvType::kFp32:
      return 4;
    case KvType::kFp8:
    case KvType::kInt8:
      return 1;
    case KvType::kInt4:
    case KvType::kNvfp4:
      return 0.5;
  }
  return 2;
}

std::int64_t layer_bytes_per_token(const Server& server, const Attention& a) {
  switch (a.kind) {
    case AttentionKind::kLinear:
    case AttentionKind::kMamba2:
    case AttentionKind::kConvolution:
    case AttentionKind::kLightning:
    case AttentionKind::kNone:
      return 0;
    case AttentionKind::kMla: {
      // One latent for all heads, on every GPU; the indexer of sparse attention keeps one fp8 key with a scale per 128.
      const double latent = vector_bytes(server, static_cast<double>(a.kv_lora_rank + a.qk_rope_dim));
      const auto index = static_cast<double>(a.index_heads > 0 ? a.index_head_dim : 0);
      return whole(latent + index + std::ceil(index / 128) * 4);
    }
    case AttentionKind::kGqa: {
      if (a.shares_keys) return 0;  // in the cache of a layer below
      const auto heads = static_cast<double>(std::max<std::int64_t>(1, a.kv_heads / server.tensor));
      return whole(2 * heads * vector_bytes(server, static_cast<double>(a.head_dim)));
    }
  }
  return 0;
}

// The convolution's last inputs in the model's type; the recurrent state too, but Qwen3.5 asks for fp32.
std::int64_t layer_state_bytes(const Server& server, const Attention& a) {
  if (a.kind == AttentionKind::kMamba2) {
    const std::int64_t element = server.weights == WeightType::kFp32 ? 4 : 2;
    const model::StateSpace& m = a.mamba;
    return (m.conv_channels() / server.tensor * (m.conv - 1) + m.inner() / server.tensor * m.state) * element;
  }
  if (a.kind == AttentionKind::kConvolution)
    return server.model.hidden / server.tensor * (a.linear_conv - 1) * (server.weights == WeightType::kFp32 ? 4 : 2);
  if (a.kind == AttentionKind::kLightning) return a.heads / server.tensor * a.head_dim * a.head_dim * 4;
  if (a.kind != AttentionKind::kLinear) return 0;
  const std::int64_t key = a.linear_key_heads * a.linear_key_dim;
  const std::int64_t value = a.linear_value_heads * a.linear_value_dim;
  const std::int64_t element = server.weights == WeightType::kFp32 ? 4 : 2;
  const std::int64_t state_element = server.model.model_type.starts_with("qwen3_5") ? 4 : element;
  const std::int64_t convolution = (2 * key + value) / server.tensor * (a.linear_conv - 1) * element;
  return convolution + value / server.tensor * a.linear_key_dim * state_element;
}

std::int64_t attention_block_size(const Server& server, std::int64_t wanted) {
  constexpr std::int64_t kAlignment = 16;  // of the attention kernels, in tokens
  std::int64_t state = 0;
  std::int64_t token = 0;
  for (const model::Layer& layer : server.model.kinds) {
    state = std::max(state, layer_state_bytes(server, layer.attention));
    token = std::max(token, layer_bytes_per_token(server, layer.attention));
  }
  if (state == 0 || token == 0) return wanted;
  return std::max(wanted, round_up(ceil_div(state, token), kAlignment));
}

std::int64_t CacheLayout::blocks_per_request(std::int64_t tokens, std::int64_t in_flight) const {
  std::int64_t blocks = 0;
  for (const CacheGroup& group : groups) {
    switch (group.kind) {
      case CacheKind::kFull:
        blocks += group.count * ceil_div(tokens, block_size);
        break;
      case CacheKind::kWindow:
        // One more, since a window rarely starts at a block's edge (facts rl-and-inference.md 4).
        blocks += group.count * (ceil_div(std::min(group.window - 1 + in_flight, tokens), block_size) + 1);
        break;
      case CacheKind::kState:
        blocks += group.count;
        break;
    }
  }
  return blocks;
}

std::int64_t CacheLayout::group_count() const {
  std::int64_t count = 0;
  for (const CacheGroup& group : groups) count += group.count;
  return count;
}

CacheLayout cache_layout(const Server& server, std::int64_t block_size, std::int64_t first, std::int64_t count) {
  std::vector<Bucket> buckets;
  std::int64_t page = 0;
  std::int64_t sum_of_pages = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    const LayerCache layer = layer_cache(server, server.model.layer(i).attention, block_size);
    page = std::max(page, layer.page);
    sum_of_pages += layer.page;
    const auto same = [&layer](const Bucket& b) { return b.kind == layer.kind && b.window == layer.window; };
    const auto found = std::find_if(buckets.begin(), buckets.end(), same);
    if (found == buckets.end())
      buckets.push_back({layer.kind, layer.window, 1});
    else
      ++found->layers;
  }
  CacheLayout layout;
  layout.block_size = block_size;
  if (buckets.size() == 1) {
    // One table for all layers; they need not be equally wide.
    layout.bytes_per_block = sum_of_pages;
    layout.groups = {{buckets[0].kind, buckets[0].window, 1}};
    return layout;
  }
  const std::int64_t size = group_size(server, buckets);
  layout.bytes_per_block = size * page;
  for (const Bucket& bucket : buckets)
    layout.groups.push_back({bucket.kind, bucket.window, ceil_div(bucket.layers, size)});
  return layout;
}

}  // namespace plimsoll::inference
