// SPDX-License-Identifier: Apache-2.0
// What an inference server does with one GPU's memory, by its engine's own account: what it asks for, what weights,
// profile run and graphs take, how many blocks of KV cache remain, how many requests they hold, and the error that it
// would print if it could not start. Invariant: the rows sum to the capacity of the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  std::int64_t weights = 0;    // on the fullest GPU
  std::int64_t activations = 0;
  std::int64_t graphs = 0;
  bool graphs_in_budget = false;
  std::int64_t outside = 0;  // context, NCCL, workspaces
  std::int64_t kv_bytes = 0;
  std::int64_t kv_bytes_per_token = 0;  // of one GPU
  std::int64_t bytes_per_block = 0;     // of one GPU
  std::int64_t blocks = 0;
  std::int64_t kv_tokens = 0;  // that the cache of the replica holds
  double max_concurrency = 0;  // requests of max_model_len, as the engine logs it
  std::string start_up_error;  // empty: it starts; else the engine's own words with our numbers
  std::string capture_risk;    // graphs outside the budget that may not fit; empty: none
  std::vector<std::string> notes;
};

[[nodiscard]] Result<ServerMemory> account(const Server& server);

// Bytes of KV cache of one token on one GPU of the server, all its layers (sliding windows counted in full).
[[nodiscard]] std::int64_t kv_bytes_per_token(const Server& server);
// Of one block on one GPU, all its layers.
[[nodiscard]] std::int64_t kv_bytes_per_block(const Server& server, std::int64_t block_size);
// Bytes of weights on the fullest GPU of the server.
[[nodiscard]] std::int64_t weight_bytes(const Server& server);

}  // namespace plimsoll::inference
