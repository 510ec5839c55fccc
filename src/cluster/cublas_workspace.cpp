// SPDX-License-Identifier: Apache-2.0
#include "cluster/cublas_workspace.h"

#include <charconv>

#include "base/bytes.h"

namespace plimsoll::cluster {

std::optional<std::int64_t> configured_workspace(std::string_view config) {
  constexpr std::int64_t kMost = 1'000'000;
  if (config.empty()) return std::nullopt;
  std::int64_t bytes = 0;
  while (!config.empty()) {
    std::int64_t numbers[2] = {};  // KiB of a buffer, buffers
    for (std::int64_t& number : numbers) {
      if (!config.starts_with(':')) return std::nullopt;
      const char* const begin = config.data() + 1;
      const auto [end, error] = std::from_chars(begin, config.data() + config.size(), number);
      if (error != std::errc{} || number < 0 || number > kMost) return std::nullopt;
      config.remove_prefix(static_cast<std::size_t>(end - config.data()));
    }
    bytes += numbers[0] * kKiB * numbers[1];
    if (bytes > kMost * kMiB) return std::nullopt;
  }
  return bytes;
}

std::int64_t cublas_workspace(Architecture architecture, std::string_view config, std::optional<Version> torch) {
  if (const auto configured = configured_workspace(config)) return *configured;
  constexpr Version kOnBlackwell{2, 12};
  const bool large = architecture == Architecture::kHopper ||
                     (architecture == Architecture::kBlackwell && torch.value_or(kOnBlackwell) >= kOnBlackwell);
  return large ? 32 * kMiB : 8 * kMiB + 128 * kKiB;
}

}  // namespace plimsoll::cluster
