// SPDX-License-Identifier: Apache-2.0
// FNV-1a over a text: a key for lines and names that were seen before.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::why {

[[nodiscard]] inline std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace plimsoll::why
