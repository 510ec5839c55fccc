// SPDX-License-Identifier: Apache-2.0
// SGLang's account (facts rl-and-inference.md 5): the fraction covers weights and cache, the rest is left for
// activations and graphs,
//   kv = free after loading - free before loading * (1 - mem_fraction_static).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "inference/accounts.h"
#include "inference/profile.h"
#include "inference/weights.h"

namespace plimsoll::inference {

namespace {

// Share of the cache that states of linear attention get, against 1 for tokens: mamba_full_memory_ratio.
constexpr double kStateRatio = 0.9;

bool has_states(const Server& server) {
  return std::any_of(server.model.kinds.begin(), server.model.kinds.end(),
                     [](const model::Layer& kind) { return kind.attention.kind == model::AttentionKind::kLinear; });
}

// One pool of tokens for all attention layers.
CacheLayout token_pool(const Server& server, const Stage& stage) {
  std::int64_t per_token = 0;
  for (std::int64_t i = stage.first; i < stage.first + stage.count; ++i)
    per_token += layer_bytes_per_token(server, server.model.layer(i).attention);
  CacheLayout layout;
  layout.block_size = *server.block_size;
  layout.bytes_per_block = std::max<std::int64_t>(1, per_token * *server.block_size);
  layout.groups = {{CacheKind::kFull, 0, 1}};
  return layout;
}

std::string start_up_error(const ServerMemory& memory, std::int64_t before, std::int64_t after) {
  const double fraction = *memory.server.memory_fraction;
  if (after <= 0)
    return fmt::format(
        "torch.OutOfMemoryError: CUDA out of memory. {} GiB of weights do not fit the {} GiB that are "
        "free.",
        format_gib(memory.weights), format_gib(before));
  if (memory.kv_bytes > after)
    return fmt::format(
        "torch.OutOfMemoryError: CUDA out of memory. The KV cache of {} GiB set by hand does not fit the "
        "{} GiB that weights leave.",
        format_gib(memory.kv_bytes), format_gib(after));
  if (memory.kv_bytes <= 0) {
    const double least = 1 - static_cast<double>(after) / static_cast<double>(before);
    return fmt::format(
        "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={}. Raise "
        "--mem-fraction-static above {:.3f} (minimum viable = 1 - available/pre = {:.4f}).",
        fraction, std::ceil(least * 1000) / 1000, least);
  }
  if (memory.kv_tokens <= 0)
    return fmt::format(
        "Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "mem_fraction_static={}",
        fraction);
  return {};
}

}  // namespace

ServerMemory sglang_account(const Server& server, const Stage& stage) {
  ServerMemory memory;
  memory.server = server;
  memory.outside = context_bytes(server) + library_bytes(server);
  memory.outside_budget = memory.outside;
  const std::int64_t before = std::max<std::int64_t>(0, server.gpu.capacity - server.held_by_others - memory.outside);
  memory.weights = static_cast<std::int64_t>(stage_weights(server, stage.first, stage.count).total());
  const std::int64_t after = before - memory.weights;
  const auto slack = static_cast<std::int64_t>(std::ceil(static_cast<double>(before) * (1 - *server.memory_fraction)));
  memory.requested = before - slack;
  memory.activations = profile_activations(server, stage.is_last);
  const Graphs graphs = cuda_graphs(server);
  memory.graphs = graphs.bytes;
  memory.graph_count = graphs.full;
  memory.graphs_in_budget = false;
  memory.cache = token_pool(server, stage);
  memory.bytes_per_block = memory.cache.bytes_per_block;
  memory.kv_bytes = server.kv_cache_bytes ? *server.kv_cache_bytes : after - slack;
  const std::int64_t granted = std::max<std::int64_t>(0, memory.kv_bytes);
  const std::int64_t states =
      has_states(server) ? static_cast<std::int64_t>(static_cast<double>(granted) * kStateRatio / (1 + kStateRatio))
                         : 0;
  memory.blocks = (granted - states) / memory.bytes_per_block;
  memory.kv_tokens = memory.blocks * memory.cache.block_size;
  const std::int64_t length = *server.max_model_len;
  memory.blocks_per_request = memory.cache.blocks_per_request(length, 0);
  memory.max_concurrency = static_cast<double>(memory.kv_tokens) / static_cast<double>(length);
  memory.start_up_error = start_up_error(memory, before, after);
  const std::int64_t wanted = memory.activations + memory.graphs;
  const std::int64_t left = after - granted;
  if (memory.start_up_error.empty() && wanted > left)
    memory.capture_risk =
        fmt::format("{} leaves {} for activations and CUDA graphs, which take about {}; lower it",
                    server.kv_cache_bytes ? std::string{"the size of the KV cache"}
                                          : fmt::format("mem_fraction_static {}", *server.memory_fraction),
                    format_bytes(left), format_bytes(wanted));
  memory.table = {
      {"other processes", server.held_by_others, false},
      {"CUDA context, NCCL and workspaces", memory.outside, true},
      {"weights", memory.weights, false},
      {"activations of a prefill chunk", memory.activations, true},
      {"CUDA graphs", memory.graphs, true},
      {"KV cache", memory.blocks * memory.bytes_per_block + states, false},
  };
  return memory;
}

std::int64_t sglang_requests(const ServerMemory& memory, std::optional<std::int64_t> given) {
  const std::int64_t estimate =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(memory.max_concurrency * 512), 2048, 4096);
  return std::max<std::int64_t>(1, std::min(given.value_or(estimate), memory.kv_tokens / 2));
}

}  // namespace plimsoll::inference
