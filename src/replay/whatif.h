// SPDX-License-Identifier: Apache-2.0
// The same history under many settings: the sensible ones as a table, or a search for the least reserved memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "allocator/settings.h"
#include "base/result.h"
#include "replay/run.h"

namespace plimsoll::replay {

// What stays the same over the settings.
struct Surroundings {
  allocator::Version torch = allocator::kDescribedVersion;
  std::int64_t capacity = allocator::kUnlimited;
  std::int64_t total = 0;
  std::optional<double> fraction;  // set outside the settings' text
};

struct WhatIf {
  std::string setting;  // as in PYTORCH_CUDA_ALLOC_CONF; "" is the default
  Run run;
  // Peak reserved if new segments came to lie the other way round: how far the answer depends on addresses.
  std::int64_t reserved_if_placed_otherwise = 0;

  [[nodiscard]] bool runs_out() const { return run.oom.has_value(); }
};

[[nodiscard]] Result<Conditions> conditions_of(const std::string& setting, const Surroundings& surroundings);

// One answer per setting, in their order; on all cores.
[[nodiscard]] Result<std::vector<WhatIf>> replay_settings(const History& history,
                                                          const std::vector<std::string>& settings,
                                                          const Surroundings& surroundings);

// The settings worth trying for this version. Garbage collection is among them only where a fraction makes it act.
[[nodiscard]] std::vector<std::string> sensible_settings(const Surroundings& surroundings);

// Best first: those that do not run out, then by peak reserved, then by calls to the driver, then by length.
void rank(std::vector<WhatIf>& answers);

struct Tuned {
  std::vector<WhatIf> best;  // ranked, the first few
  std::size_t tried = 0;
  bool exhaustive = false;  // else one setting at a time was improved, until none helped
};

// progress: called with the number of settings tried and, where known, the number to try.
[[nodiscard]] Result<Tuned> tune(const History& history, const Surroundings& surroundings,
                                 const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace plimsoll::replay
