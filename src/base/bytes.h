// SPDX-License-Identifier: Apache-2.0
// Bytes as people read and write them. Inside the program bytes are int64_t (differences are
// negative); GiB appear only here. 2^30 is always called GiB, never GB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

// "54.79 GiB", "512.00 MiB", "12 B": the unit that leaves one to three digits before the point.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

// "54.79" in GiB, for table columns that carry the unit in their head.
[[nodiscard]] std::string format_gib(std::int64_t bytes, int digits = 2);

// "80GiB", "80 GB", "1.5TiB", "4096" -> bytes. GB is 10^9, GiB is 2^30.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);

// "1,234,567"
[[nodiscard]] std::string with_commas(std::int64_t number);

}  // namespace plimsoll
