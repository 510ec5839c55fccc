// SPDX-License-Identifier: Apache-2.0
// One inference server: a model on tensor * pipeline GPUs under vLLM or SGLang, as its command line describes it.
// What is unset is what the engine of that version would choose itself (resolved()).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/choices.h"
#include "base/result.h"
#include "cluster/cluster.h"
#include "model/architecture.h"

namespace plimsoll::inference {

enum class Engine : std::uint8_t { kVllm, kSglang };
enum class WeightType : std::uint8_t { kBf16, kFp32, kFp8, kInt8, kInt4 };
enum class KvType : std::uint8_t { kAuto, kBf16, kFp32, kFp8, kInt8, kInt4, kNvfp4 };

struct Version {
  int major = 0;
  int minor = 17;
  int patch = 1;
  friend auto operator<=>(const Version&, const Version&) = default;
};

struct Server {
  model::Architecture model;
  cluster::Gpu gpu;
  Engine engine = Engine::kVllm;
  Version version;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  WeightType weights = WeightType::kBf16;
  KvType kv = KvType::kAuto;
  std::optional<double> memory_fraction;  // gpu_memory_utilization, or mem_fraction_static
  std::optional<std::int64_t> max_model_len;
  std::optional<std::int64_t> max_num_seqs;            // SGLang: max_running_requests
  std::optional<std::int64_t> max_num_batched_tokens;  // SGLang: chunked_prefill_size
  std::optional<std::int64_t> block_size;              // tokens; SGLang: page_size
  std::optional<std::int64_t> kv_cache_bytes;          // --kv-cache-memory: no profile run
  bool enforce_eager = false;                          // no CUDA graphs
  bool prefix_caching = true;
  bool offline = false;             // made by the LLM class of vLLM instead of its HTTP server: other defaults
  std::int64_t gpus_per_node = 8;   // tensor parallelism beyond it leaves NVLink
  std::int64_t held_by_others = 0;  // bytes of the GPU that other processes hold at start-up
};

// The same with every optional filled in by the engine's rule (facts rl-and-inference.md 4, 5). What no engine would
// start with (a fraction outside (0, 1], heads that do not divide, a size of zero) is an error here; what merely does
// not fit is account()'s start_up_error.
[[nodiscard]] Result<Server> resolved(Server server);

[[nodiscard]] std::span<const Spelling<Engine>> spellings_of(Engine engine);        // "vllm", "sglang"
[[nodiscard]] std::span<const Spelling<WeightType>> spellings_of(WeightType type);  // "bf16", "fp8", ...
[[nodiscard]] std::span<const Spelling<KvType>> spellings_of(KvType type);          // "auto", "fp8", ...
using plimsoll::name_of;
// "0.17.1", "v0.21", "0.20.1rc2": what follows the third number is ignored.
[[nodiscard]] Result<Version> parse_version(std::string_view text);
[[nodiscard]] std::string to_string(const Version& version);

// Layers of each pipeline stage as vLLM deals them: what is left over goes to the stages before the last one, from
// the back, since the first and the last also hold the embedding and the head.
[[nodiscard]] std::vector<std::int64_t> stage_layers(std::int64_t layers, std::int64_t stages);

}  // namespace plimsoll::inference
