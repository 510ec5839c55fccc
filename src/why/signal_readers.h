// SPDX-License-Identifier: Apache-2.0
// Readers of known messages, each of one kind of speaker. They see more than the generic complaint does.
#pragma once

#include <optional>
#include <string_view>

#include "why/signal.h"

namespace plimsoll::why {

[[nodiscard]] inline Signal of(SignalKind kind, std::int64_t bytes = 0) {
  Signal signal;
  signal.kind = kind;
  signal.bytes = bytes;
  return signal;
}

// The system: kernel, batch systems, shells, the host's allocators, disks.
[[nodiscard]] std::optional<Signal> host_kill(std::string_view text);
// Whether a container's record says that its memory limit was not the reason of its end.
[[nodiscard]] bool denies_oom(std::string_view text);
[[nodiscard]] std::optional<Signal> killed(std::string_view text);
[[nodiscard]] std::optional<Signal> host_allocation(std::string_view text);
[[nodiscard]] std::optional<Signal> disk(std::string_view text);

// Libraries and engines on the device.
[[nodiscard]] std::optional<Signal> nccl(std::string_view text);
[[nodiscard]] std::optional<Signal> library(std::string_view text);
[[nodiscard]] std::optional<Signal> serving(std::string_view text);
[[nodiscard]] std::optional<int> nccl_device(std::string_view text);
// What the runtime told NCCL: "Cuda failure 'named symbol not found'" -> "named symbol not found".
[[nodiscard]] std::string_view runtime_reason(std::string_view text);

}  // namespace plimsoll::why
