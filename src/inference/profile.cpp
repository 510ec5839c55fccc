// SPDX-License-Identifier: Apache-2.0
#include "inference/profile.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "inference/versions.h"

namespace plimsoll::inference {

namespace {

// Bytes of the sampler per logit. With a sort of all logits (before 0.17): 38 to 41, from logged peaks of 1.26 GiB
// (Llama-3 8B, 256 x 128,256, the same at TP 1 and TP 2, vLLM pull request 10511), 1.39 GiB (Qwen 1.5B, issue 12529)
// and 9.96 GiB (Gemma-3 4B, 1024 x 262,144, pull request 21489); the same chain of operations measured on an H200 with
// PyTorch 2.11 takes 38.1. With the Triton kernel: 2 (logits) + 4 (fp32) +
// 4 to 8 by facts rl-and-inference.md 4; 12 gives the 1.44 GiB logged for Llama-3.1 8B at 1024 x 128,256.
constexpr double kSamplerBytesSort = 40;
constexpr double kSamplerBytes = 12;

// 51 + 35 graphs were estimated at 1.62 GiB (facts rl-and-inference.md 4): 19.3 MiB each. Logged totals of other
// models range from 3 to 23 MiB per graph in their shared pool; alone, a decode step of a 3B or 8B model captured on an
// H200 took 36 to 88 MiB, its activations included.
constexpr double kGraphBytes = 1.62 * static_cast<double>(kGiB) / (51 + 35);

// "Free memory on device (78.66/79.19 GiB) on startup" and alike: 0.41 to 0.70 GiB are gone before the first reading;
// 0.61 GiB measured on an H200 with PyTorch 2.11.
constexpr std::int64_t kContext = kGiB / 2;
// Memory outside PyTorch that a server's own growth adds: 0.04 to 0.26 GiB logged on one GPU, 0.2 to 0.95 with NCCL.
constexpr std::int64_t kLibraries = kGiB / 5;
constexpr std::int64_t kNccl = 2 * kGiB / 5;
// Before 0.7 the context and more counted as growth: 1.79 GiB logged (pull request 10511), 0.16 after the change.
constexpr std::int64_t kLibrariesBeforeGrowth = 179 * kGiB / 100;

std::int64_t to_bytes(double bytes) {
  constexpr double kMost = 1e18;
  return static_cast<std::int64_t>(std::min(bytes, kMost));
}

// facts rl-and-inference.md 4: Tb * 2 * (3h + max((n+2k)d, 3f or topk * 3 f_e) / tp) bytes.
double forward_bytes(const Server& server) {
  const auto tokens = static_cast<double>(*server.max_num_batched_tokens);
  const auto tp = static_cast<double>(server.tensor);
  double widest = 0;
  for (const model::Layer& layer : server.model.kinds) {
    const model::Attention& a = layer.attention;
    const model::FeedForward& ffn = layer.ffn;
    double attention = 0;
    switch (a.kind) {
      case model::AttentionKind::kGqa:
        attention = static_cast<double>((a.heads + 2 * a.kv_heads) * a.head_dim);
        break;
      case model::AttentionKind::kMla:
        attention = static_cast<double>(a.heads * (2 * (a.qk_nope_dim + a.qk_rope_dim) + a.v_head_dim));
        break;
      case model::AttentionKind::kLinear:
        attention = static_cast<double>(2 * (a.linear_key_heads * a.linear_key_dim) +
                                        2 * (a.linear_value_heads * a.linear_value_dim));
        break;
      case model::AttentionKind::kMamba2:
        attention = static_cast<double>(2 * a.mamba.inner() + 2 * a.mamba.groups * a.mamba.state + a.mamba.heads);
        break;
      case model::AttentionKind::kConvolution:
        attention = 3 * static_cast<double>(server.model.hidden);
        break;
      case model::AttentionKind::kLightning:
        attention = 4 * static_cast<double>(a.heads * a.head_dim);
        break;
      case model::AttentionKind::kNone:
        break;
    }
    const double branches = ffn.gated ? 3 : 2;
    const double dense = branches * static_cast<double>(ffn.width);
    const double experts =
        branches * static_cast<double>(ffn.experts_per_token) * static_cast<double>(ffn.expert_width);
    widest = std::max({widest, attention, dense, experts});
  }
  return tokens * 2 * (3 * static_cast<double>(server.model.hidden) + widest / tp);
}

// Sizes 1, 2, 4, 8 to 248 by 8, then by 16 from 256, as far as `largest`.
std::int64_t capture_sizes(std::int64_t largest) {
  std::int64_t count = 0;
  for (const std::int64_t size : {1, 2, 4})
    if (size <= largest) ++count;
  if (largest >= 8) count += std::min<std::int64_t>(largest, 248) / 8;
  if (largest >= 256) count += (largest - 256) / 16 + 1;
  return count;
}

bool uses_latent_attention(const Server& server) {
  return std::any_of(server.model.kinds.begin(), server.model.kinds.end(),
                     [](const model::Layer& kind) { return kind.attention.kind == model::AttentionKind::kMla; });
}

// SGLang's sizes of prefill graphs up to `largest` tokens.
std::int64_t sglang_prefill_graphs(std::int64_t largest) {
  struct Range {
    std::int64_t from, to, step;
  };
  const Range kRanges[] = {{4, 32, 4},      {48, 256, 16},     {288, 512, 32},
                           {576, 1024, 64}, {1280, 4096, 256}, {4608, largest, 512}};
  std::int64_t count = 0;
  for (const Range& range : kRanges) {
    const std::int64_t last = std::min(range.to, largest);
    if (last >= range.from) count += (last - range.from) / range.step + 1;
  }
  return count;
}

}  // namespace

std::int64_t profile_activations(const Server& server, bool is_last_stage) {
  const double forward = forward_bytes(server);
  if (!is_last_stage || server.engine == Engine::kSglang) return to_bytes(forward);
  const bool sorts = server.version < kTritonSampler;
  const auto rows = static_cast<double>(std::min(*server.max_num_seqs, *server.max_num_batched_tokens));
  const double hidden_states =
      2 * static_cast<double>(*server.max_num_batched_tokens) * static_cast<double>(server.model.hidden);
  const double sampler =
      rows * static_cast<double>(server.model.vocab) * (sorts ? kSamplerBytesSort : kSamplerBytes) + hidden_states;
  return to_bytes(std::max(forward, sampler));
}

Graphs cuda_graphs(const Server& server) {
  Graphs graphs;
  if (server.enforce_eager) return graphs;
  if (server.engine == Engine::kSglang) {
    graphs.full = sglang_decode_graph_batch(server);
    graphs.bytes = to_bytes(sglang_graph_mib(server) * static_cast<double>(kMiB));
    return graphs;
  }
  const std::int64_t most = server.gpu.is_blackwell() ? 1024 : 512;
  const std::int64_t seqs = *server.max_num_seqs;
  const std::int64_t tokens = *server.max_num_batched_tokens;
  if (server.version < kV1) {
    graphs.full = capture_sizes(std::min<std::int64_t>(seqs, 256));
  } else {
    const std::int64_t largest = std::min({2 * seqs, most, tokens});
    graphs.piecewise = capture_sizes(largest);
    if (server.version >= kFullGraphs) graphs.full = capture_sizes(std::min(largest, seqs));
  }
  graphs.bytes = to_bytes(kGraphBytes * static_cast<double>(graphs.full + graphs.piecewise));
  return graphs;
}

std::int64_t context_bytes(const Server& server) {
  return server.engine == Engine::kVllm && server.version < kChargesOnlyItsGrowth ? 0 : kContext;
}

std::int64_t library_bytes(const Server& server) {
  const std::int64_t nccl = server.tensor * server.pipeline > 1 ? kNccl : 0;
  if (server.engine == Engine::kVllm && server.version < kChargesOnlyItsGrowth) return kLibrariesBeforeGrowth + nccl;
  return kLibraries + nccl;
}

std::int64_t sglang_chunked_prefill(const cluster::Gpu& gpu) {
  const std::int64_t gib = gpu.capacity / kGiB;
  if (gib < 35) return 2048;
  if (gib < 60) return 4096;
  return gib < 160 ? 8192 : 16384;
}

std::int64_t sglang_decode_graph_batch(const Server& server) {
  const std::int64_t gib = server.gpu.capacity / kGiB;
  const bool wide = server.tensor >= 4;
  if (gib < 20) return 8;
  if (gib < 35) return wide ? 80 : 24;
  if (gib < 60) return wide ? 160 : 32;
  if (gib < 160) return wide ? 512 : 256;
  return 512;
}

double sglang_graph_mib(const Server& server) {
  if (server.enforce_eager) return 0;
  const double decode = 2 * static_cast<double>(sglang_decode_graph_batch(server));
  const bool latent = uses_latent_attention(server);
  const double prefill = latent ? 1536 : 8 * static_cast<double>(sglang_prefill_graphs(*server.max_num_batched_tokens));
  return decode + prefill;
}

double sglang_reserved_mib(const Server& server) {
  const auto tokens = static_cast<double>(std::max<std::int64_t>(*server.max_num_batched_tokens, 2048));
  const auto gpus = static_cast<double>(server.tensor * server.pipeline);
  const double reserved = 512 + 1.5 * tokens + 1024 * gpus / 8 + sglang_graph_mib(server);
  return server.gpu.capacity > 60 * kGiB ? std::max(reserved, 10.0 * 1024) : reserved;
}

}  // namespace plimsoll::inference
