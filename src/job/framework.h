// SPDX-License-Identifier: Apache-2.0
// What a framework is, as far as a job depends on it. Nobody outside src/framework asks which framework a job is of:
// they ask what it does. One value per row of framework/list.h, defined in the framework's folder.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "framework/list.h"
#include "job/knobs.h"

namespace plimsoll::job {

struct Alias;
struct Job;
struct Joined;
struct ReadOptions;

// Where a framework is taken because none is named.
enum class Assumed : std::uint8_t {
  kNowhere,
  kForOneGpu,    // a model, or files that name no framework
  kForManyGpus,  // a model on several GPUs, and a job that is to be sharded
  kForPlans,     // a search that is to write files for none in particular
};

// What runs one rank of it for real (plimsoll prove).
enum class Prover : std::uint8_t { kNone, kMegatron, kTrainer, kFsdp };

// A key that a model's name alone leaves open and that everybody sets.
struct UsualSetting {
  std::string_view key;
  std::string_view value;
  bool needs_experts = false;
};

[[nodiscard]] constexpr std::uint8_t bit(ShardingKind kind) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(kind));
}

struct FrameworkFacts {
  Framework id{};
  std::string_view name;        // in job files, flags and answers
  std::string_view words = {};  // other names of it, separated by spaces

  // What it does when it is told nothing, and its own names of keys.
  void (*set_defaults)(Job& job) = nullptr;
  const std::vector<Alias>& (*aliases)() = nullptr;

  // Which modules run.
  bool is_megatron = false;                    // Megatron-Core's (step/megatron); else those of step/transformers
  bool runs_hub_models = false;                // Transformers' own modelling code
  std::span<const std::string_view> models{};  // types that it has written itself; empty: any

  // What it can split, shard and train.
  bool has_pipeline = false;
  bool splits_model = false;                        // also by tensors, sequences and chunks of a pipeline rank
  bool has_adapters = true;                         // LoRA and its kin
  std::string_view expert_split_rule = "R003";      // refuses experts that do not divide over the ranks of a stage
  bool recomputes_every_nth = false;                // whole layers, some left out
  std::uint8_t shardings = 0;                       // bit() of each kind that it knows beside none and DDP
  ShardingKind own_sharding = ShardingKind::kNone;  // the one that it is there for
  bool drives_others = false;                       // its arguments stand beside files of what it shards through
  bool replicates = false;                          // DDP on several GPUs, unless it is told to shard
  bool empties_cache = false;                       // once the model is built, before it trains

  // How it reads what it is given.
  Assumed assumed = Assumed::kNowhere;
  std::span<const UsualSetting> usual{};
  bool needs_gpu_count = true;                  // else one GPU is assumed
  bool derives_micro_batch = false;             // from the global batch where only that is given
  Status (*require_batch)(Job& job) = nullptr;  // where no micro-batch is given
  Status (*fill_in)(Joined& joined, const ReadOptions& options) = nullptr;  // values that its files leave to it
  std::string_view seq_length_hint = "give seq_length";

  // How it derives. Texts are what it prints.
  void (*derive_precision)(Job& job) = nullptr;
  std::string_view two_halves;                   // when bf16 and fp16 are both on
  std::string_view fp8_switch = {};              // without which a recipe has no effect
  bool reduces_in_fp32 = false;                  // gradients, unless the weights are fp16
  bool fuses_by_activation = false;              // one switch of bias fusion for each activation
  bool positions_bound_sequences = false;        // max_position_embeddings, also where no table has that many rows
  bool hides_messages_only_with_engine = false;  // TP overlap is off without sequence parallelism or TE (R019)
  bool moves_precision_aware_only = false;       // the optimizer to the host (R221)
  bool refuses_idle_fp32_residual = false;       // fp32 residuals of a model that is in fp32 anyway (R208)
  std::string_view fused_loss = "te";  // which fused loss it accepts: Megatron-LM none of TE's from 0.19 on (R210)

  // How well it is known.
  bool is_recorded = false;  // its peaks are among the recorded ones of common models
  Prover prover = Prover::kNone;
};

#define PLIMSOLL_ROW(id, name) extern const FrameworkFacts name##_facts;
PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW

// By id. Prices ask per candidate, so that this is two loads.
inline constexpr const FrameworkFacts* kFrameworkFacts[] = {
#define PLIMSOLL_ROW(id, name) &name##_facts,
    PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};
inline constexpr std::size_t kFrameworkCount = std::size(kFrameworkFacts);

[[nodiscard]] inline const FrameworkFacts& facts_of(Framework framework) {
  return *kFrameworkFacts[static_cast<std::size_t>(framework)];
}

// In the order of the list.
[[nodiscard]] constexpr std::array<Framework, kFrameworkCount> all_frameworks() {
  std::array<Framework, kFrameworkCount> all{};
  for (std::size_t i = 0; i < kFrameworkCount; ++i) all[i] = static_cast<Framework>(i);
  return all;
}

// The one whose names are those of the canonical keys.
inline constexpr Framework kCanonical{};

// The one that is taken there.
[[nodiscard]] Framework assumed_framework(Assumed where);
// The one that is there for this sharding, if any.
[[nodiscard]] std::optional<Framework> framework_of(ShardingKind kind);

}  // namespace plimsoll::job
