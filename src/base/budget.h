// SPDX-License-Identifier: Apache-2.0
// How much a simulation may take before it is called too large, so that no input, however strange, holds a machine for
// minutes or fills it. A simulation that would exceed its budget answers with its closed form where it has one, and
// says so; else it is an error that names the count and the limit.
#pragma once

#include <cstdint>

namespace plimsoll {

struct Budget {
  // Of one rank's step. Jobs that people run need a few hundred passes and under a million events; an event takes 36
  // bytes, a pass up to 500 of them.
  std::int64_t layer_passes = 20'000;  // forward or backward of one layer, all simulated micro-batches of two steps
  std::int64_t events = 4'000'000;     // allocations and releases on a tape
  std::int64_t weights = 1'000'000;    // tensors of weights on one rank
  // Of a simulated run of reinforcement learning.
  std::int64_t loop_events = 30'000'000;  // arrivals, tokens of a batch, ends of requests
};

inline constexpr Budget kBudget{};

}  // namespace plimsoll
