// SPDX-License-Identifier: Apache-2.0
// How much the recorded process could take. A snapshot says neither the device's capacity nor a memory fraction that
// was set through the API; an out-of-memory event bounds both (facts pytorch-allocator.md 12, 15).
#pragma once

#include <cstdint>
#include <optional>

#include "allocator/settings.h"
#include "replay/exact.h"
#include "replay/history.h"

namespace plimsoll::replay {

// Bytes that could be reserved: at least `low` were, `high` could not be.
struct InferredLimit {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool fraction = false;  // the device had more left than was asked for: a limit of the process, not of the device
  std::int64_t seen_on_device = 0;  // most that was reserved and free together: the device has at least so many bytes
  std::int64_t device_free = 0;     // when memory ran out
  std::uint32_t event = 0;          // the out-of-memory event that says so
};

// Nothing without an out-of-memory event.
[[nodiscard]] std::optional<InferredLimit> infer_limit(const History& history, const allocator::Settings& settings);

// What the caller knows from outside: --gpu, --capacity, --fraction.
struct KnownLimits {
  std::int64_t total = 0;     // bytes of the device; 0: unknown
  std::int64_t capacity = 0;  // bytes that PyTorch can take of it; 0: unknown
};

// The limits to replay the recorded settings with.
[[nodiscard]] RecordedLimits recorded_limits(const KnownLimits& known, const std::optional<InferredLimit>& inferred);

}  // namespace plimsoll::replay
