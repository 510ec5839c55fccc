// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "allocator/settings.h"
#include "base/checked.h"

namespace plimsoll::allocator {

// Bytes that cudaMalloc is asked for, so that a block of a rounded size can be cut from them (facts
// pytorch-allocator.md 1).
[[nodiscard]] inline std::int64_t segment_size(std::int64_t rounded, std::int64_t large_segment) {
  if (rounded <= kSmallSize) return kSmallSegment;
  if (rounded < kMinLargeAlloc) return large_segment;
  return round_up(rounded, kRoundLarge);
}

}  // namespace plimsoll::allocator
