// SPDX-License-Identifier: Apache-2.0
// Gzip from memory into memory, with bounds on the whole and on the ratio, so that a small file cannot fill memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll::snapshot {

// Recordings compress 8 to 18 to one; the ratio counts only beyond `free_bytes`.
struct InflateLimits {
  std::size_t largest = std::size_t{8} << 30;
  std::size_t largest_ratio = 100;
  std::size_t free_bytes = 16U << 20;
};

[[nodiscard]] bool is_gzip(std::string_view bytes);

// All members of a gzip file, one after the other.
[[nodiscard]] Result<std::string> inflate_gzip(std::string_view bytes, const InflateLimits& limits = {});

}  // namespace plimsoll::snapshot
