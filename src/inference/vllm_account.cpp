// SPDX-License-Identifier: Apache-2.0
// vLLM's account (facts rl-and-inference.md 4):
//   requested = ceil(total * gpu_memory_utilization), refused when less is free at the start
//   kv        = requested - weights - peak of the profile run - growth outside PyTorch [- graphs, newer versions]
// Error texts are the engine's, with our numbers.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "inference/accounts.h"
#include "inference/profile.h"
#include "inference/versions.h"
#include "inference/weights.h"

namespace plimsoll::inference {

namespace {

constexpr std::string_view kHelp =
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.";

std::int64_t bytes_needed(const ServerMemory& memory, std::int64_t tokens) {
  return memory.bytes_per_block * memory.cache.blocks_per_request(tokens, *memory.server.max_num_batched_tokens);
}

// The longest request that fits, 0 when not even one token does; as the engine searches it.
std::int64_t longest_request(const ServerMemory& memory) {
  std::int64_t low = 0;
  std::int64_t high = *memory.server.max_model_len;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (bytes_needed(memory, middle) <= memory.kv_bytes)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::string too_long(const ServerMemory& memory) {
  const Version& version = memory.server.version;
  const std::int64_t length = *memory.server.max_model_len;
  const std::int64_t longest = longest_request(memory);
  if (version < kV1)
    return fmt::format(
        "The model's max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache ({}). "
        "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        length, memory.kv_tokens);
  const std::string estimate =
      longest > 0 ? fmt::format("Based on the available memory, the estimated maximum model length is {}. ", longest)
                  : std::string{};
  const bool newer = version >= kNewWording;
  return fmt::format(
      "To serve at least one request with the {} max seq len ({}), ({} GiB KV cache is needed, which is larger than "
      "the available KV cache memory ({} GiB). {}Try increasing `gpu_memory_utilization` {}or decreasing "
      "`max_model_len` when initializing the engine. {}",
      newer ? "model's" : "models's", length, format_gib(bytes_needed(memory, length)), format_gib(memory.kv_bytes),
      estimate, newer ? "(which also controls CPU memory on the CPU backend) " : "", kHelp);
}

std::string start_up_error(const ServerMemory& memory, std::int64_t free_at_start) {
  const Server& server = memory.server;
  if (free_at_start < memory.requested)
    return fmt::format(
        "Free memory on device cuda:0 ({}/{} GiB) on startup is less than desired GPU memory utilization ({}, {} GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        format_gib(free_at_start), format_gib(server.gpu.capacity), *server.memory_fraction,
        format_gib(memory.requested));
  const std::int64_t alive = memory.weights + memory.outside - memory.outside_budget;
  const std::int64_t peak = alive + memory.activations;
  if (peak > free_at_start)
    return fmt::format(
        "torch.OutOfMemoryError: CUDA out of memory. {} GiB are needed for {} GiB of weights and the profile run, {} "
        "GiB are free.",
        format_gib(peak), format_gib(memory.weights), format_gib(free_at_start));
  if (server.kv_cache_bytes && alive + *server.kv_cache_bytes > free_at_start)
    return fmt::format(
        "torch.OutOfMemoryError: CUDA out of memory. The KV cache of {} GiB set by hand does not fit the {} GiB that "
        "weights leave.",
        format_gib(*server.kv_cache_bytes), format_gib(free_at_start - alive));
  if (memory.kv_bytes <= 0)
    return fmt::format(
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
        "engine{}. {}",
        server.version < kNewWording
            ? ""
            : " (this flag also controls CPU memory reservation on the CPU backend, despite its name)",
        kHelp);
  if (bytes_needed(memory, *server.max_model_len) > memory.kv_bytes) return too_long(memory);
  return {};
}

// Graphs that no budget holds must fit what the utilisation leaves (facts rl-and-inference.md 1, disagreement 3), and
// nothing looks after a cache that was sized by hand.
std::string capture_risk(const ServerMemory& memory, std::int64_t free_at_start) {
  const Server& server = memory.server;
  if (server.kv_cache_bytes) {
    const std::int64_t alive = memory.weights + memory.outside - memory.outside_budget + memory.kv_bytes;
    const std::int64_t later = memory.activations + memory.graphs;
    if (alive + later <= free_at_start) return {};
    return fmt::format("the KV cache of {} set by hand leaves {} for activations and CUDA graphs, which take about {}",
                       format_bytes(memory.kv_bytes), format_bytes(free_at_start - alive), format_bytes(later));
  }
  const std::int64_t left = free_at_start - memory.requested;
  if (memory.graphs_in_budget || memory.graphs <= left) return {};
  const double most = static_cast<double>(free_at_start - memory.graphs) / static_cast<double>(server.gpu.capacity);
  return fmt::format(
      "vLLM {} does not charge CUDA graphs to its budget: about {} are captured after the cache is taken and {} are "
      "left; capture, or the first full batch after it, can run out of memory. Keep gpu_memory_utilization at or below "
      "{:.2f}, or set enforce_eager",
      to_string(server.version), format_bytes(memory.graphs), format_bytes(left),
      std::max(0.0, std::floor(most * 100) / 100));
}

}  // namespace

ServerMemory vllm_account(const Server& server, const Stage& stage) {
  ServerMemory memory;
  memory.server = server;
  const std::int64_t context = context_bytes(server);
  const std::int64_t libraries = library_bytes(server);
  const std::int64_t free_at_start = server.gpu.capacity - server.held_by_others - context;
  const Graphs graphs = cuda_graphs(server);

  memory.requested =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(server.gpu.capacity) * *server.memory_fraction));
  memory.weights = static_cast<std::int64_t>(stage_weights(server, stage.first, stage.count).total());
  memory.activations = profile_activations(server, stage.is_last);
  memory.outside = context + libraries;
  memory.outside_budget = context;
  memory.graphs = graphs.bytes;
  memory.graph_count = graphs.full + graphs.piecewise;
  memory.graphs_in_budget = server.version >= kChargesGraphs;
  memory.cache = cache_layout(server, *server.block_size, stage.first, stage.count);
  memory.bytes_per_block = memory.cache.bytes_per_block;
  const std::int64_t charged = memory.graphs_in_budget ? memory.graphs : 0;
  memory.kv_bytes = server.kv_cache_bytes
                        ? *server.kv_cache_bytes
                        : memory.requested - memory.weights - memory.activations - libraries - charged;
  memory.blocks = std::max<std::int64_t>(0, memory.kv_bytes) / memory.bytes_per_block;
  memory.blocks_per_request = memory.cache.blocks_per_request(*server.max_model_len, *server.max_num_batched_tokens);
  memory.max_concurrency = static_cast<double>(memory.blocks) / static_cast<double>(memory.blocks_per_request);
  memory.kv_tokens =
      server.version < kLogsConcurrencyTokens
          ? memory.blocks / memory.cache.group_count() * memory.cache.block_size
          : static_cast<std::int64_t>(memory.max_concurrency * static_cast<double>(*server.max_model_len));
  memory.start_up_error = start_up_error(memory, free_at_start);
  if (memory.start_up_error.empty()) memory.capture_risk = capture_risk(memory, free_at_start);
  memory.table = {
      {"other processes", server.held_by_others, false},
      {"CUDA context", context, true},
      {"weights", memory.weights, false},
      {"activations of the profile run", memory.activations, true},
      {"NCCL and workspaces", libraries, true},
      {"CUDA graphs", memory.graphs, true},
      {"KV cache", memory.blocks * memory.bytes_per_block, false},
  };
  return memory;
}

}  // namespace plimsoll::inference
