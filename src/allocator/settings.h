// SPDX-License-Identifier: Apache-2.0
// PYTORCH_CUDA_ALLOC_CONF as the caching allocator reads it (facts pytorch-allocator.md 1, 2).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/version.h"

namespace plimsoll::allocator {

inline constexpr std::int64_t kMinBlock = 512;
inline constexpr std::int64_t kSmallSize = 1 << 20;  // rounded size up to this: small pool
inline constexpr std::int64_t kSmallSegment = 2 << 20;
inline constexpr std::int64_t kMinLargeAlloc = 10 << 20;  // from here a segment of its own
inline constexpr std::int64_t kRoundLarge = 2 << 20;

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

using plimsoll::Version;                            // of PyTorch
inline constexpr Version kDescribedVersion{2, 11};  // the one that the facts describe in full

// "2.6", "2.11.0+cu130" -> Version; from 2.1 on.
[[nodiscard]] Result<Version> parse_version(std::string_view text);

struct Settings {
  bool expandable_segments = false;
  std::int64_t max_split_size = kUnlimited;
  std::int64_t max_non_split_rounding = 20 << 20;
  std::int64_t large_segment = 20 << 20;
  std::array<std::int64_t, 16> divisions{};  // roundup_power2_divisions per power of two from 1 MiB
  double gc_threshold = 0;                   // garbage_collection_threshold; 0: off
  std::optional<double> fraction;            // per-process memory fraction, where one was set
  bool throws_at_limit = false;              // throw_on_cudamalloc_oom: a request over the fraction fails at once
  bool native = true;                        // false: backend:cudaMallocAsync, whose policy is the driver's
  Version torch = kDescribedVersion;
  std::vector<std::string> ignored;  // known settings without effect on sizes (pinned_*, ...)
};

// "expandable_segments:True,max_split_size_mb:128" -> Settings; "" is the default. A setting that the version does
// not have is an error, as it is there.
[[nodiscard]] Result<Settings> parse_settings(std::string_view text, Version torch = kDescribedVersion);

// The settings as PYTORCH_CUDA_ALLOC_CONF would have them, without those that are as by default.
[[nodiscard]] std::string print_settings(const Settings& settings);

// A value of the allocator_settings of a snapshot, which has what was in force; keys that decide no size are passed
// over.
[[nodiscard]] Status take_recorded(std::string_view key, std::string_view value, Settings& settings);

// The entry of Settings::divisions that a size falls into.
[[nodiscard]] std::size_t division_index(std::int64_t size);

// The size of the block a request becomes: a multiple of 512, or of a power-of-two division.
[[nodiscard]] std::int64_t round_size(const Settings& settings, std::int64_t requested);

}  // namespace plimsoll::allocator
