// SPDX-License-Identifier: Apache-2.0
#include "inference/memory.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "inference/accounts.h"
#include "inference/weights.h"

namespace plimsoll::inference {

namespace {

std::vector<Stage> stages_of(const Server& server) {
  std::vector<Stage> stages;
  std::int64_t first = 0;
  for (const std::int64_t count : stage_layers(server.model.depth(), server.pipeline)) {
    stages.push_back({first, count, first + count == server.model.depth()});
    first += count;
  }
  return stages;
}

void add_notes(ServerMemory& memory) {
  const Server& server = memory.server;
  bool copies = false;
  bool latent = false;
  bool windows = false;
  bool states = false;
  for (const model::Layer& layer : server.model.kinds) {
    const model::Attention& a = layer.attention;
    copies |= a.kind == model::AttentionKind::kGqa && server.tensor > a.kv_heads;
    latent |= a.kind == model::AttentionKind::kMla && server.tensor > 1;
    windows |= a.kind != model::AttentionKind::kLinear && a.sliding_window > 0;
    states |= a.kind == model::AttentionKind::kLinear;
  }
  const auto note = [&memory](std::string text) { memory.notes.push_back(std::move(text)); };
  if (copies) note("more tensor-parallel GPUs than key/value heads: heads are copied, the cache shrinks no further");
  if (latent) note("the latent of MLA is kept whole on every tensor-parallel GPU: TP does not shrink the cache");
  if (windows && server.engine == Engine::kSglang)
    note("sliding-window layers are counted in full; SGLang may give them a smaller pool");
  if (states) note("the state of linear-attention layers is taken once per request; its size is estimated");
  if (server.kv_cache_bytes) note("the size of the KV cache was set by hand: there is no profile run");
}

// The longest request that the model's positions allow; 0: the model does not say. Scaled embeddings reach further,
// those of Llama 3 and LongRoPE have their factor in the positions already.
std::int64_t longest_request(const model::Architecture& model) {
  const bool is_counted = model.rope_scaling == "llama3" || model.rope_scaling == "longrope";
  const double factor = model.rope_scaling.empty() || is_counted ? 1 : std::max(1.0, model.rope_factor);
  return static_cast<std::int64_t>(static_cast<double>(model.max_positions) * factor);
}

// Both engines compare before they load anything.
std::string length_error(const Server& server) {
  const std::int64_t longest = longest_request(server.model);
  if (longest < 1 || *server.max_model_len <= longest) return {};
  return fmt::format("{} {} is more than the {} positions of the model; the engine refuses it unless {} is set",
                     server.engine == Engine::kVllm ? "max_model_len" : "context_length", *server.max_model_len,
                     longest,
                     server.engine == Engine::kVllm ? "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
                                                    : "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1");
}

void close_table(ServerMemory& memory) {
  std::int64_t sum = 0;
  for (const MemoryRow& row : memory.table) sum += row.bytes;
  const std::int64_t left = memory.server.gpu.capacity - sum;
  memory.table.push_back({left < 0 ? "missing" : "free", left, true});
}

}  // namespace

Result<ServerMemory> account(const Server& server) {
  PLIMSOLL_TRY(ready, resolved(server));
  std::optional<ServerMemory> poorest;
  for (const Stage& stage : stages_of(ready)) {
    ServerMemory memory = ready.engine == Engine::kVllm ? vllm_account(ready, stage) : sglang_account(ready, stage);
    const bool fails = !memory.start_up_error.empty();
    const bool failed = poorest && !poorest->start_up_error.empty();
    if (!poorest || (fails && !failed) || (fails == failed && memory.blocks < poorest->blocks))
      poorest = std::move(memory);
  }
  PLIMSOLL_CHECK(poorest.has_value());
  if (std::string error = length_error(ready); !error.empty()) poorest->start_up_error = std::move(error);
  if (ready.engine == Engine::kSglang) poorest->server.max_num_seqs = sglang_requests(*poorest, server.max_num_seqs);
  poorest->kv_bytes_per_token = kv_bytes_per_token(ready);
  add_notes(*poorest);
  close_table(*poorest);
  return *std::move(poorest);
}

double requests_that_fit(const ServerMemory& memory, double tokens) {
  const auto block = static_cast<double>(memory.cache.block_size);
  double per_request = 0;
  for (const CacheGroup& group : memory.cache.groups) {
    const auto count = static_cast<double>(group.count);
    switch (group.kind) {
      case CacheKind::kFull:
        per_request += count * (tokens / block + 0.5);
        break;
      case CacheKind::kWindow:
        per_request += count * (std::min(tokens, static_cast<double>(group.window)) / block + 1);
        break;
      case CacheKind::kState:
        per_request += count;
        break;
    }
  }
  // One block is reserved (facts rl-and-inference.md 4).
  return std::max(0.0, static_cast<double>(memory.blocks - 1)) / per_request;
}

std::int64_t sleeping_bytes(const ServerMemory& memory, int level) {
  const std::int64_t stays = memory.outside + memory.graphs;
  if (level >= 1) return stays;
  return stays + memory.weights + memory.blocks * memory.bytes_per_block;
}

std::int64_t sleeping_host_bytes(const ServerMemory& memory, int level) { return level == 1 ? memory.weights : 0; }

std::int64_t kv_bytes_per_token(const Server& server) { return kv_bytes_per_block(server, 1); }

std::int64_t kv_bytes_per_block(const Server& server, std::int64_t block_size) {
  std::int64_t most = 0;
  for (const Stage& stage : stages_of(server)) {
    std::int64_t bytes = 0;
    for (std::int64_t i = stage.first; i < stage.first + stage.count; ++i)
      bytes += block_size * layer_bytes_per_token(server, server.model.layer(i).attention);
    most = std::max(most, bytes);
  }
  return most;
}

std::int64_t weight_bytes(const Server& server) {
  double most = 0;
  for (const Stage& stage : stages_of(server))
    most = std::max(most, stage_weights(server, stage.first, stage.count).total());
  return static_cast<std::int64_t>(most);
}

}  // namespace plimsoll::inference
