// SPDX-License-Identifier: Apache-2.0
#include "inference/speed.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "inference/kv_cache.h"
#include "inference/memory.h"
#include "inference/weights.h"

namespace plimsoll::inference {

namespace {

// facts rl-and-inference.md 7: 8 to 20 us for an all-reduce of a decode batch inside a node.
constexpr double kLatencyNode = 12e-6;
// facts step-time.md 6: NCCL's base latency and hops of a network, both directions of a ring.
constexpr double kLatencyNetwork = 40e-6;
// facts step-time.md 6: shares of link rates that large messages reach.
constexpr double kNvlinkShare = 0.8;
constexpr double kNetworkShare = 0.75;
// Links of GPUs whose catalogue entry has none (bytes/s): PCIe 4, and a 100 Gbit/s network card.
constexpr double kPcie = 25e9;
constexpr double kSlowNetwork = 12.5e9;
// facts rl-and-inference.md 7: 0.2 to 0.5 ms of host work per step with graphs, 1 to 3 ms without. Measured on an H200:
// 0.03 to 0.09 ms to launch the graph of a step alone, 6 to 12 ms to launch its 400 kernels from plain PyTorch.
constexpr double kHostGraphs = 0.35e-3;
constexpr double kHostEager = 2e-3;

struct Link {
  double rate = 0;
  double latency = 0;
};

Link link_of(const Server& server, std::int64_t gpus) {
  const cluster::Rates& rates = server.gpu.rates;
  const std::int64_t domain = std::max(server.gpus_per_node, rates.rack_domain);
  if (gpus > domain) return {(rates.nic > 0 ? rates.nic : kSlowNetwork) * kNetworkShare, kLatencyNetwork};
  if (rates.nvlink > 0) return {rates.nvlink * kNvlinkShare, kLatencyNode};
  return {rates.host_link > 0 ? rates.host_link : kPcie, kLatencyNode};
}

// Peak FLOP/s of the products with weights of that type; 0: the part has no such units.
double peak_of(const cluster::Rates& rates, WeightType type) {
  switch (type) {
    case WeightType::kFp8:
    case WeightType::kInt8:
      return rates.fp8 > 0 ? rates.fp8 : rates.bf16;
    case WeightType::kBf16:
    case WeightType::kInt4:  // dequantised in front of 16-bit products
      return rates.bf16;
    case WeightType::kFp32:
      return rates.bf16 / 8;
  }
  return rates.bf16;
}

}  // namespace

Status speed_is_known(const Server& server) {
  const cluster::Rates& rates = server.gpu.rates;
  if (rates.hbm > 0 && rates.bf16 > 0) return {};
  return bad_input(fmt::format("GPU '{}': its {} is not known; wanted a part of the catalogue", server.gpu.name,
                               rates.hbm > 0 ? "rate of 16-bit products" : "memory bandwidth"),
                   "name a GPU of `plimsoll gpus`");
}

Speed::Speed(const Server& server) {
  const auto tp = static_cast<double>(server.tensor);
  const auto pp = static_cast<double>(server.pipeline);
  const double gpus = tp * pp;
  Server flat = server;  // all stages in one: every stage reads its weights once while a batch passes
  flat.pipeline = 1;
  const StageWeights weights = stage_weights(flat, 0, server.model.depth());
  weight_bytes_dense_ = weights.layers + weights.head;
  weight_bytes_expert_ = weights.experts;
  for (const std::uint8_t kind : server.model.layers) {
    const model::Layer& layer = server.model.kinds[kind];
    const model::Attention& a = layer.attention;
    if (layer.ffn.is_moe()) {
      experts_ = static_cast<double>(layer.ffn.experts);
      experts_per_token_ = static_cast<double>(layer.ffn.experts_per_token);
    }
    messages_ += server.tensor > 1 ? (layer.parallel_block ? 1 : 2) : 0;
    if (a.kind == model::AttentionKind::kLinear) {
      // The state is read and written for every token.
      kv_bytes_per_request_ += 2 * static_cast<double>(layer_state_bytes(server, a)) / pp;
      continue;
    }
    // Scores and values: 4 * n * d FLOPs per pair of tokens; MLA works on the latent when it decodes.
    const double width = a.kind == model::AttentionKind::kMla
                             ? static_cast<double>(a.heads * (2 * a.kv_lora_rank + a.qk_rope_dim)) / 2
                             : static_cast<double>(a.heads * a.head_dim);
    const double bytes = static_cast<double>(layer_bytes_per_token(server, a)) / pp;
    const auto window = static_cast<double>(a.sliding_window);
    const auto same = std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return s.window == window; });
    Span& span = same != spans_.end() ? *same : spans_.emplace_back(Span{window, 0, 0});
    span.bytes_per_token += bytes;
    span.flops_per_token += 4 * width / gpus;
  }
  const ActiveWeights active = active_weights(server);
  flops_per_token_ = 2 * (active.layers + active.experts) / gpus;
  flops_per_sample_ = 2 * active.head / gpus;
  stream_ = server.gpu.rates.hbm * kStreamShare;
  flops_ = peak_of(server.gpu.rates, server.weights) * kComputeShare;
  attention_flops_ = server.gpu.rates.bf16 * kComputeShare;
  const Link link = link_of(server, server.tensor);
  message_latency_ = link.latency;
  link_ = link.rate;
  // A ring moves 2 (tp - 1) / tp of the message through every link.
  message_bytes_per_token_ = 2 * static_cast<double>(server.model.hidden) * 2 * (tp - 1) / tp;
  if (server.pipeline > 1) {
    const Link between = link_of(server, server.tensor * server.pipeline);
    sends_ = pp - 1;
    send_latency_ = between.latency;
    send_seconds_per_token_ = 2 * static_cast<double>(server.model.hidden) / between.rate;
  }
  host_ = server.enforce_eager ? kHostEager : kHostGraphs;
  stages_ = pp;
  tokens_per_pass_ = static_cast<double>(server.max_num_batched_tokens.value_or(8192));
}

double Speed::weight_bytes(double tokens) const {
  if (experts_ <= 0) return weight_bytes_dense_;
  // facts rl-and-inference.md 7: the share of experts that at least one of the tokens visits.
  const double visited = 1 - std::pow(1 - experts_per_token_ / experts_, tokens);
  return weight_bytes_dense_ + weight_bytes_expert_ * visited;
}

double Speed::message_seconds(double tokens) const {
  double total = messages_ * (message_latency_ + tokens * message_bytes_per_token_ / link_);
  if (sends_ > 0) total += sends_ * (send_latency_ + tokens * send_seconds_per_token_);
  return total;
}

DecodeStep Speed::decode(double batch, double mean_context) const {
  DecodeStep step;
  // Stages work on batches of their own at the same time: each reads its weights for a share of the requests.
  const double micro = batch / stages_;
  double cache = batch * kv_bytes_per_request_;
  double attention = 0;
  for (const Span& span : spans_) {
    const double seen = span.window > 0 ? std::min(span.window, mean_context) : mean_context;
    cache += batch * seen * span.bytes_per_token;
    attention += batch * seen * span.flops_per_token;
  }
  step.memory = (weight_bytes(micro) + cache) / stream_;
  step.compute = batch * (flops_per_token_ + flops_per_sample_) / flops_ + attention / attention_flops_;
  step.messages = message_seconds(micro);
  step.host = host_;
  step.seconds = std::max(step.memory, step.compute) + step.messages + step.host;
  return step;
}

double Speed::prefill(double tokens, double mean_context) const {
  if (!(tokens > 0)) return 0;
  const double passes = std::ceil(tokens / tokens_per_pass_);
  double attention = 0;
  for (const Span& span : spans_) {
    const double seen = span.window > 0 ? std::min(span.window, mean_context) : mean_context;
    attention += tokens * seen * span.flops_per_token;
  }
  const double compute = tokens * flops_per_token_ / flops_ + attention / attention_flops_;
  const double memory = passes * weight_bytes(tokens / passes / stages_) / stream_;
  const double per_pass = message_seconds(tokens / passes / stages_) + host_;
  return std::max(compute, memory) + passes * per_pass;
}

}  // namespace plimsoll::inference
