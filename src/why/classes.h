// SPDX-License-Identifier: Apache-2.0
// The causes that a diagnosis can name. The names are those of --json and of docs/reference/classes.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::why {

enum class Cause : std::uint8_t {
  kActivationBound,
  kCheckpointSpike,
  kConfigConflict,
  kCublasCudnnAlloc,
  kCudaGraphMemory,
  kDiskFull,
  kEvalAccumulation,
  kExpandableInterop,
  kFirstBackward,
  kFragmentation,
  kGenuineCapacity,
  kHostRamKill,
  kKvCacheTooSmall,
  kLongestBatch,
  kMemoryLeak,
  kModelLoadSpike,
  kNcclMemory,
  kNotMemory,
  kOptimizerStateBound,
  kOtherProcess,
  kRlColocation,
  kRocmHip,
};
inline constexpr std::size_t kCauses = 22;

[[nodiscard]] std::string_view cause_name(Cause cause);
[[nodiscard]] std::optional<Cause> cause_of(std::string_view name);
// One clause: "the tensors of forward and backward do not fit".
[[nodiscard]] std::string_view cause_says(Cause cause);

}  // namespace plimsoll::why
