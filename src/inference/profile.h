// SPDX-License-Identifier: Apache-2.0
// What a server takes besides weights and cache: the transient peak of its profile run, CUDA graphs, context and
// libraries. These are estimates from published logs; the account marks them so.
#pragma once

#include <cstdint>

#include "inference/server.h"

namespace plimsoll::inference {

struct Graphs {
  std::int64_t full = 0;  // one per decode batch size
  std::int64_t piecewise = 0;
  std::int64_t bytes = 0;
};

// `server` must be resolved. Peak of one forward over max_num_batched_tokens, or of the sampler after it in the last
// stage, whichever is higher: the forward's tensors are gone when the sampler runs.
[[nodiscard]] std::int64_t profile_activations(const Server& server, bool is_last_stage);
[[nodiscard]] Graphs cuda_graphs(const Server& server);

// Before the engine takes its first reading: the CUDA context. Charged to no budget.
[[nodiscard]] std::int64_t context_bytes(const Server& server);
// After it: NCCL, cuBLAS workspaces, modules loaded later.
[[nodiscard]] std::int64_t library_bytes(const Server& server);

// SGLang's choices by GPU memory (facts rl-and-inference.md 5).
[[nodiscard]] std::int64_t sglang_chunked_prefill(const cluster::Gpu& gpu);
[[nodiscard]] std::int64_t sglang_decode_graph_batch(const Server& server);
[[nodiscard]] double sglang_graph_mib(const Server& server);
[[nodiscard]] double sglang_reserved_mib(const Server& server);

}  // namespace plimsoll::inference
