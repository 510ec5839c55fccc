// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder as data: what each costs and risks, where that is known from, and the line that
// a framework's user writes for it.
#pragma once

#include <span>
#include <string_view>

#include "why/findings.h"
#include "why/fixes.h"

namespace plimsoll::why {

enum class Saves : std::uint8_t {
  kNothing,      // no bytes of the device: another resource, or the cause itself
  kActivations,  // a share of what forward keeps
  kStates,       // a share of weights, gradients and moments
  kRequest,      // the request that failed
  kCached,       // what is reserved but unallocated
  kOthers,       // what other processes hold
  kLimit,        // what lies above this process's limit
};

struct Rung {
  std::string_view id;
  std::string_view title;
  Saves saves = Saves::kNothing;
  double low = 0;  // share of the bytes that `saves` speaks of
  double high = 0;
  PercentRange slowdown;
  bool changes_science = false;
  std::string_view risk;
  std::string_view source;
};

// The rung must exist.
[[nodiscard]] const Rung& rung(std::string_view id);
[[nodiscard]] std::span<const Rung> all_rungs();
// Parts of them, each in a file of its own; the step's are in rungs.cpp.
[[nodiscard]] std::span<const Rung> around_rungs();  // evaluation, saving, loading, the host, the cause itself
[[nodiscard]] std::span<const Rung> engine_rungs();  // graphs, serving, communication
[[nodiscard]] std::span<const Rung> limit_rungs();   // limits other than device memory

// The line to write; "" where the rung does not exist for this framework.
[[nodiscard]] std::string_view line_for(std::string_view id, Framework framework);

}  // namespace plimsoll::why
