// SPDX-License-Identifier: Apache-2.0
// Which modules PEFT changes, by their names in the model: adapters of which rank, trained copies of whole modules,
// trained biases (facts other-frameworks-memory.md 3.1, 3.5).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name_pattern.h"
#include "job/job.h"

namespace plimsoll::step::transformers {

using Aliases = std::initializer_list<std::string_view>;

enum class ModuleKind : std::uint8_t { kLinear, kHead, kEmbedding, kNorm };

// A module by the names that families have for it.
struct Module {
  Aliases names;
  std::int64_t layer = -1;  // of the whole model; -1: outside the layers
  bool in_mlp = false;      // of a layer: in its MLP, not in its attention
  ModuleKind kind = ModuleKind::kLinear;
};

class Adapted {
 public:
  explicit Adapted(const job::Job& job);

  [[nodiscard]] bool is_on() const { return on_; }
  // 0: the module has no adapter.
  [[nodiscard]] std::int64_t rank_of(const Module& module);
  [[nodiscard]] bool is_saved(const Module& module);
  // Names of modules_to_save that no module asked about has had.
  [[nodiscard]] std::vector<std::string> unmatched() const;
  // GaLore: optim_target_modules, which Transformers compares in its own way.
  [[nodiscard]] bool is_projected(const Module& module) const;
  [[nodiscard]] bool trains_bias(bool of_adapted_linear) const {
    return on_ && (job_.adapter.bias == job::AdapterBias::kAll ||
                   (job_.adapter.bias == job::AdapterBias::kAdapted && of_adapted_linear));
  }

 private:
  struct Name {
    std::string text;
    NamePattern pattern;
    bool is_pattern = false;
  };
  [[nodiscard]] std::vector<std::string> keys_of(const Module& module) const;
  [[nodiscard]] bool is_target(const Module& module) const;
  [[nodiscard]] bool is_excluded(const std::vector<std::string>& keys) const;

  const job::Job& job_;
  bool on_ = false;
  bool needs_keys_ = false;
  std::string layers_;  // where the family keeps its layers: "model.layers."
  std::string attention_, mlp_;
  std::string wrapper_;  // where a model with a tower keeps its decoder, if a pattern names it: "model.language_model."
  std::vector<Name> targets_, excluded_, projected_;
  std::vector<std::pair<NamePattern, std::int64_t>> ranks_;
  std::vector<bool> matched_;  // by name of modules_to_save
};

}  // namespace plimsoll::step::transformers
