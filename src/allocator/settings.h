// SPDX-License-Identifier: Apache-2.0
// PYTORCH_CUDA_ALLOC_CONF as the caching allocator reads it (facts pytorch-allocator.md 1, 2).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::allocator {

inline constexpr std::int64_t kMinBlock = 512;
inline constexpr std::int64_t kSmallSize = 1 << 20;  // rounded size up to this: small pool
inline constexpr std::int64_t kSmallSegment = 2 << 20;
inline constexpr std::int64_t kMinLargeAlloc = 10 << 20;  // from here a segment of its own
inline constexpr std::int64_t kRoundLarge = 2 << 20;

struct Settings {
  bool expandable_segments = false;
  std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_non_split_rounding = 20 << 20;
  std::int64_t large_segment = 20 << 20;
  std::array<std::int64_t, 16> divisions{};  // roundup_power2_divisions per power of two from 1 MiB
  double gc_threshold = 0;                   // garbage_collection_threshold; 0: off
  double fraction = 1;                       // per-process memory fraction
  std::vector<std::string> ignored;          // known settings without effect on sizes (backend, pinned_*, ...)
};

// "expandable_segments:True,max_split_size_mb:128" -> Settings; "" is the default.
[[nodiscard]] Result<Settings> parse_settings(std::string_view text);

// The size of the block a request becomes: a multiple of 512, or of a power-of-two division.
[[nodiscard]] std::int64_t round_size(const Settings& settings, std::int64_t requested);

}  // namespace plimsoll::allocator
