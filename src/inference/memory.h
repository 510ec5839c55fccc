// SPDX-License-Identifier: Apache-2.0
// What an inference server does with one GPU's memory, by its engine's own account: what it asks for, what weights,
// profile run and graphs take, how many blocks of KV cache remain, how many requests they hold, and the error that it
// would print if it could not start. Invariant: the rows sum to the capacity of the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inference/kv_cache.h"
#include "inference/server.h"

namespace plimsoll::inference {

struct MemoryRow {
  std::string name;  // "weights", "KV cache", "activations of the profile run", "CUDA graphs", ..., "free"
  std::int64_t bytes = 0;
  bool estimated = false;
};

struct ServerMemory {
  Server server;  // resolved
  std::vector<MemoryRow> table;
  std::int64_t requested = 0;  // bytes the engine grants itself
  std::int64_t weights = 0;    // on the GPU whose cache is the smallest; with pipeline stages they differ
  std::int64_t activations = 0;
  std::int64_t graphs = 0;
  std::int64_t graph_count = 0;
  bool graphs_in_budget = false;
  std::int64_t outside = 0;         // context, NCCL, workspaces
  std::int64_t outside_budget = 0;  // the part of it that the engine does not charge to `requested`
  std::int64_t kv_bytes = 0;
  std::int64_t kv_bytes_per_token = 0;  // of one GPU
  std::int64_t bytes_per_block = 0;     // of one GPU
  CacheLayout cache;                    // of the same GPU
  std::int64_t blocks = 0;
  std::int64_t blocks_per_request = 0;  // at max_model_len, over all groups of layers
  std::int64_t kv_tokens = 0;           // that the cache of the replica holds, as the engine logs it
  double max_concurrency = 0;           // requests of max_model_len, as the engine logs it
  std::string start_up_error;           // empty: it starts; else the engine's own words with our numbers
  std::string capture_risk;             // graphs outside the budget that may not fit; empty: none
  std::vector<std::string> notes;
};

[[nodiscard]] Result<ServerMemory> account(const Server& server);

// Requests of `tokens` each that the cache holds at once; windows and states of linear attention count as the engine
// counts them.
[[nodiscard]] double requests_that_fit(const ServerMemory& memory, double tokens);

// Bytes of the GPU that a sleeping server keeps: level 0 all of it, levels 1 and 2 context, NCCL and graphs
// (facts rl-and-inference.md 4 and 6: graphs are not released).
[[nodiscard]] std::int64_t sleeping_bytes(const ServerMemory& memory, int level);
// Bytes of host memory per GPU that it takes meanwhile: level 1 keeps the weights there, level 2 nothing.
[[nodiscard]] std::int64_t sleeping_host_bytes(const ServerMemory& memory, int level);

// Bytes of KV cache of one token on one GPU of the server, all its layers (sliding windows counted in full).
[[nodiscard]] std::int64_t kv_bytes_per_token(const Server& server);
// Of one block on one GPU, all its layers.
[[nodiscard]] std::int64_t kv_bytes_per_block(const Server& server, std::int64_t block_size);
// Bytes of weights on the fullest GPU of the server.
[[nodiscard]] std::int64_t weight_bytes(const Server& server);

}  // namespace plimsoll::inference
