// SPDX-License-Identifier: Apache-2.0
// A random job of any framework, as a user would ask for it: a model of the catalogue and flags.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "job/read.h"
#include "model/catalog.h"

namespace plimsoll::testing {

using Flags = std::vector<std::pair<std::string, std::string>>;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<std::int64_t>(values.size())));
  }

 private:
  std::mt19937_64 random_;
};

struct Asked {
  job::ReadOptions options;
  std::int64_t micro_batches = 1;

  [[nodiscard]] std::string text() const {
    std::string all = fmt::format("--model {} --framework {} --gpu {} --gpus {}", options.model,
                                  job::name_of(*options.framework), options.gpu, *options.gpus);
    for (const auto& [key, value] : options.overrides) all += fmt::format(" --{} {}", key, value);
    return all;
  }
  void set(const std::string& key, std::string value) {
    for (auto& [name, old] : options.overrides)
      if (name == key) {
        old = std::move(value);
        return;
      }
    options.overrides.emplace_back(key, std::move(value));
  }
  [[nodiscard]] std::string get(const std::string& key, std::string otherwise) const {
    for (const auto& [name, value] : options.overrides)
      if (name == key) return value;
    return otherwise;
  }
};

// Of a size that a test can walk many of.
inline std::string some_model(Dice& dice) {
  const auto& all = model::catalog_entries();
  for (;;) {
    const model::CatalogEntry& entry = all[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(all.size())))];
    if (entry.parameters < 150'000'000'000) return entry.name;
  }
}

inline void choose_parallel(Dice& dice, job::Framework framework, Flags& flags) {
  const bool megatron = framework == job::Framework::kMegatronLm || framework == job::Framework::kMegatronBridge;
  const bool torchtitan = framework == job::Framework::kTorchtitan;
  const auto add = [&flags](const char* key, std::int64_t value) { flags.emplace_back(key, std::to_string(value)); };
  if (megatron || torchtitan) {
    if (dice.one_in(2)) add("tensor_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(2)) add("pipeline_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(4)) add("context_parallel_size", 2);
    if (dice.one_in(3)) flags.emplace_back("sequence_parallel", "true");
  }
  if (megatron) {
    if (dice.one_in(4)) add("virtual_pipeline_model_parallel_size", dice.of({2, 4}));
    if (dice.one_in(3)) add("expert_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(2)) flags.emplace_back("use_distributed_optimizer", "true");
    if (dice.one_in(3)) flags.emplace_back("overlap_grad_reduce", "true");
  }
  if (torchtitan && dice.one_in(4)) flags.emplace_back("pipeline_schedule", "gpipe");
  if (framework == job::Framework::kDeepSpeed) add("zero_stage", dice.of({0, 1, 2, 3}));
  if (framework == job::Framework::kDeepSpeed && dice.one_in(4)) flags.emplace_back("offload_optimizer_device", "cpu");
}

inline void choose_activations(Dice& dice, job::Framework framework, Flags& flags) {
  const bool megatron = framework == job::Framework::kMegatronLm || framework == job::Framework::kMegatronBridge;
  if (!megatron) {
    if (dice.one_in(3)) flags.emplace_back("gradient_checkpointing", "true");
    if (dice.one_in(5)) flags.emplace_back("use_liger_kernel", "true");
    return;
  }
  switch (dice.below(4)) {
    case 0:
      flags.insert(flags.end(), {{"recompute_granularity", "full"},
                                 {"recompute_method", dice.of<std::string>({"uniform", "block"})},
                                 {"recompute_num_layers", std::to_string(1 + dice.below(4))}});
      break;
    case 1:
      flags.insert(flags.end(), {{"recompute_granularity", "selective"},
                                 {"recompute_modules", dice.of<std::string>({"core_attn", "mlp", "layernorm"})}});
      break;
    default:
      break;
  }
}

// Settings that frameworks take and that often do nothing beside others: lint says so, and then they must cost nothing.
inline void choose_what_does_nothing(Dice& dice, job::Framework framework, Flags& flags) {
  const bool megatron = framework == job::Framework::kMegatronLm || framework == job::Framework::kMegatronBridge;
  if (megatron) {
    if (dice.one_in(8)) flags.emplace_back("fp8", "hybrid");
    if (dice.one_in(3)) flags.emplace_back("transformer_impl", dice.of<std::string>({"local", "transformer_engine"}));
    if (dice.one_in(8)) flags.emplace_back("tp_comm_overlap", "true");
    if (dice.one_in(10)) flags.emplace_back("cpu_offloading", "true");
    return;
  }
  if (framework == job::Framework::kDeepSpeed && dice.one_in(4)) flags.emplace_back("offload_param_device", "cpu");
  if (framework == job::Framework::kTransformers && dice.one_in(4)) flags.emplace_back("use_cache", "true");
}

inline Asked some_job(std::uint64_t seed) {
  Dice dice(seed * 0x9E3779B97F4A7C15ULL + 1);
  Asked asked;
  const auto framework =
      dice.of({job::Framework::kMegatronLm, job::Framework::kMegatronBridge, job::Framework::kTransformers,
               job::Framework::kFsdp2, job::Framework::kDeepSpeed, job::Framework::kTorchtitan});
  asked.options.framework = framework;
  asked.options.model = some_model(dice);
  asked.options.gpu = dice.of<std::string>({"h100", "a100", "h200", "b200"});
  asked.options.gpus = dice.of<std::int64_t>({1, 2, 4, 8, 16, 32, 64});
  Flags& flags = asked.options.overrides;
  flags.emplace_back("seq_length", std::to_string(dice.of({256, 512, 1024, 2048, 4096})));
  flags.emplace_back("micro_batch_size", std::to_string(dice.of({1, 2, 3, 4})));
  flags.emplace_back("gradient_accumulation_steps", std::to_string(dice.of({1, 2, 4, 8})));
  if (dice.one_in(2)) flags.emplace_back("bf16", "true");
  choose_parallel(dice, framework, flags);
  choose_activations(dice, framework, flags);
  if (dice.one_in(6)) flags.emplace_back("peft", "lora");
  choose_what_does_nothing(dice, framework, flags);
  return asked;
}

}  // namespace plimsoll::testing
