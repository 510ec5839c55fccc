// SPDX-License-Identifier: Apache-2.0
// What an engine chooses where its user did not, and what it refuses outright.
#include "inference/server.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/text.h"
#include "inference/kv_cache.h"
#include "inference/profile.h"
#include "inference/versions.h"

namespace plimsoll::inference {

namespace {

// Bounds far beyond any server, so that products of sizes stay inside int64.
constexpr std::int64_t kMaxParallel = 1024;
constexpr std::int64_t kMaxSeqs = 1LL << 20;
constexpr std::int64_t kMaxBatchedTokens = 1LL << 24;
constexpr std::int64_t kMaxBlock = 1LL << 16;
constexpr std::int64_t kMaxLength = 1LL << 31;
constexpr std::int64_t kMaxCapacity = 1LL << 50;

struct Names {
  std::string_view fraction;
  std::string_view model_len;
  std::string_view seqs;
  std::string_view batched;
  std::string_view block;
};

// The keys as the engine's own command line calls them, for messages.
Names names(Engine engine) {
  if (engine == Engine::kVllm)
    return {"gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size"};
  return {"mem_fraction_static", "context_length", "max_running_requests", "chunked_prefill_size", "page_size"};
}

Status within(std::string_view key, std::optional<std::int64_t> value, std::int64_t most) {
  if (value && (*value < 1 || *value > most))
    return bad_input(fmt::format("{} is {}; wanted 1 to {}", key, *value, most));
  return {};
}

Status check_sizes(const Server& server) {
  const Names key = names(server.engine);
  PLIMSOLL_TRY_STATUS(within("tensor parallel size", server.tensor, kMaxParallel));
  PLIMSOLL_TRY_STATUS(within("pipeline parallel size", server.pipeline, kMaxParallel));
  PLIMSOLL_TRY_STATUS(within(key.model_len, server.max_model_len, kMaxLength));
  PLIMSOLL_TRY_STATUS(within(key.seqs, server.max_num_seqs, kMaxSeqs));
  PLIMSOLL_TRY_STATUS(within(key.batched, server.max_num_batched_tokens, kMaxBatchedTokens));
  PLIMSOLL_TRY_STATUS(within(key.block, server.block_size, kMaxBlock));
  PLIMSOLL_TRY_STATUS(within("KV cache memory", server.kv_cache_bytes, kMaxCapacity));
  PLIMSOLL_TRY_STATUS(within("GPUs per node", server.gpus_per_node, 1LL << 20));
  if (server.gpu.capacity < 1 || server.gpu.capacity > kMaxCapacity)
    return bad_input(fmt::format("the memory of the GPU is {} bytes; wanted 1 byte to 1 PiB", server.gpu.capacity),
                     "name a GPU of `plimsoll gpus`");
  if (server.held_by_others < 0 || server.held_by_others > server.gpu.capacity)
    return bad_input(fmt::format("other processes hold {} bytes of a GPU with {}; wanted 0 to all of it",
                                 server.held_by_others, server.gpu.capacity));
  if (const auto fraction = server.memory_fraction; fraction && !(*fraction > 0 && *fraction <= 1))
    return bad_input(fmt::format("{} is {}; wanted more than 0 and at most 1", key.fraction, *fraction));
  return {};
}

Status check_layer(const model::Attention& attention, std::int64_t tensor) {
  if (attention.kind == model::AttentionKind::kLinear) {
    if (attention.linear_key_heads % tensor != 0 || attention.linear_value_heads % tensor != 0)
      return bad_input(
          fmt::format("tensor parallel size {} does not divide the {} key and {} value heads of linear "
                      "attention",
                      tensor, attention.linear_key_heads, attention.linear_value_heads));
    return {};
  }
  // The engines' own words: "Total number of attention heads (40) must be divisible by tensor parallel size (3)".
  if (attention.heads % tensor != 0)
    return bad_input(fmt::format("total number of attention heads ({}) must be divisible by tensor parallel size ({})",
                                 attention.heads, tensor),
                     fmt::format("use a tensor parallel size that divides {}", attention.heads));
  if (attention.kind == model::AttentionKind::kMla) return {};
  const std::int64_t kv = attention.kv_heads;
  if (kv >= tensor ? kv % tensor != 0 : tensor % kv != 0)
    return bad_input(
        fmt::format("tensor parallel size {} and {} key/value heads do not divide one another", tensor, kv),
        "each GPU holds whole key/value heads, or all GPUs that share one hold a copy of it");
  return {};
}

// Keys of its own, or the state of a mixer. Blocks of a cache are counted by stage, so that each must hold some.
bool keeps_something(const model::Attention& attention) {
  return attention.kind != model::AttentionKind::kNone && !attention.shares_keys;
}

Status check_stages(const Server& server) {
  std::int64_t first = 0;
  for (const std::int64_t count : stage_layers(server.model.depth(), server.pipeline)) {
    bool keeps = false;
    for (std::int64_t i = first; i < first + count; ++i)
      keeps = keeps || keeps_something(server.model.layer(i).attention);
    if (!keeps)
      return tl::make_unexpected(Error{Code::kMissing,
                                       fmt::format("pipeline parallel size {}: layers {} to {} of {} keep no cache of "
                                                   "their own, which is not modelled for a stage of a server",
                                                   server.pipeline, first, first + count - 1, server.model.name),
                                       {},
                                       "a smaller pipeline parallel size"});
    first += count;
  }
  return {};
}

Status check_split(const Server& server) {
  PLIMSOLL_TRY_STATUS(model::validate(server.model));
  if (server.model.head != model::Head::kLanguage)
    return bad_input(fmt::format("{} is an encoder, which generates no tokens", server.model.model_type));
  if (server.model.shared_block != nullptr)
    return tl::make_unexpected(
        Error{Code::kMissing,
              fmt::format("{}: layers that keep keys of attention and the state of a mixer at once are not modelled "
                          "for a server",
                          server.model.model_type),
              {},
              "name another model"});
  for (const model::Layer& layer : server.model.kinds) PLIMSOLL_TRY_STATUS(check_layer(layer.attention, server.tensor));
  if (server.pipeline > server.model.depth())
    return bad_input(fmt::format("pipeline parallel size {} exceeds the {} layers of the model", server.pipeline,
                                 server.model.depth()));
  return check_stages(server);
}

bool is_a100(const cluster::Gpu& gpu) { return lower(gpu.id + gpu.name).find("a100") != std::string::npos; }

struct SchedulerDefaults {
  std::int64_t batched_tokens = 0;
  std::int64_t seqs = 0;
};

// facts rl-and-inference.md 4, the table; before V1 a whole prompt had to fit one batch.
SchedulerDefaults vllm_defaults(const Server& server) {
  if (server.version < kV1) return {std::max<std::int64_t>(*server.max_model_len, 2048), 256};
  const std::int64_t memory = server.gpu.capacity;
  if (memory >= 160 * kGiB && server.version >= kLargeGpuDefaults) return {16384, 1024};
  if (memory >= 70 * kGiB && !is_a100(server.gpu)) return {server.offline ? 16384 : 8192, 1024};
  return {server.offline ? 8192 : 2048, 256};
}

Status resolve_vllm(Server& server) {
  if (!server.memory_fraction) server.memory_fraction = server.version < kChargesGraphs ? 0.9 : 0.92;
  const SchedulerDefaults defaults = vllm_defaults(server);
  const bool given_tokens = server.max_num_batched_tokens.has_value();
  const bool given_seqs = server.max_num_seqs.has_value();
  if (!given_seqs) server.max_num_seqs = defaults.seqs;
  // seqs * length cannot overflow: 2^20 * 2^31.
  if (!given_tokens)
    server.max_num_batched_tokens = std::min(defaults.batched_tokens, *server.max_num_seqs * *server.max_model_len);
  if (!given_seqs) server.max_num_seqs = std::min(*server.max_num_seqs, *server.max_num_batched_tokens);
  if (*server.max_num_batched_tokens < *server.max_num_seqs)
    return bad_input(fmt::format("max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({})",
                                 *server.max_num_batched_tokens, *server.max_num_seqs),
                     "every running request takes at least one token of a batch");
  if (!server.block_size) server.block_size = 16;
  server.block_size = attention_block_size(server, *server.block_size);
  return {};
}

Status resolve_sglang(Server& server) {
  if (!server.block_size) server.block_size = 1;
  if (!server.max_num_batched_tokens) server.max_num_batched_tokens = sglang_chunked_prefill(server.gpu);
  if (!server.memory_fraction) {
    const double total = static_cast<double>(server.gpu.capacity) / static_cast<double>(kMiB);
    const double share = std::round((total - sglang_reserved_mib(server)) / total * 1000) / 1000;
    if (share <= 0)
      return bad_input(fmt::format("mem_fraction_static would be {:.3f} on a GPU of {} MiB; wanted more than 0", share,
                                   server.gpu.capacity / kMiB),
                       "set mem_fraction_static, or a smaller chunked_prefill_size");
    server.memory_fraction = share;
  }
  // The rule needs the size of the cache (facts rl-and-inference.md 5); account() raises it up to 4096.
  if (!server.max_num_seqs) server.max_num_seqs = 2048;
  return {};
}

}  // namespace

std::vector<std::int64_t> stage_layers(std::int64_t layers, std::int64_t stages) {
  const auto count = static_cast<std::size_t>(stages);
  std::vector<std::int64_t> result(count, layers / stages);
  const auto left = static_cast<std::size_t>(layers % stages);
  for (std::size_t i = 0; i < left; ++i) result[count - 2 - i] += 1;
  return result;
}

Result<Server> resolved(Server server) {
  PLIMSOLL_TRY_STATUS(check_sizes(server));
  PLIMSOLL_TRY_STATUS(check_split(server));
  if (!server.max_model_len) {
    if (server.model.max_positions < 1)
      return bad_input("max_model_len is not set and the model does not state its context length",
                       "set max_model_len to prompt plus completion");
    server.max_model_len = std::min(server.model.max_positions, kMaxLength);
  }
  if (server.engine == Engine::kVllm) {
    PLIMSOLL_TRY_STATUS(resolve_vllm(server));
  } else {
    PLIMSOLL_TRY_STATUS(resolve_sglang(server));
  }
  return server;
}

}  // namespace plimsoll::inference
