// SPDX-License-Identifier: Apache-2.0
// The counters of PyTorch's allocator (facts pytorch-allocator.md 11), from torch.cuda.memory_stats() as JSON, with
// keys like "allocated_bytes.all.current" or nested as memory_stats_as_nested_dict() has them. What the source does
// not say stays absent. memory_summary.h reads the same from the printed table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace plimsoll::snapshot {

// The true number is at least `value` and below `value + precision`; 1 is exact.
struct Figure {
  std::int64_t value = 0;
  std::int64_t precision = 1;

  bool operator==(const Figure&) const = default;
};

struct Usage {
  std::optional<Figure> current;
  std::optional<Figure> peak;
  std::optional<Figure> allocated;  // since the process began or the counters were reset
  std::optional<Figure> freed;

  bool operator==(const Usage&) const = default;
};

enum class Stat : std::uint8_t {
  kAllocatedBytes,
  kActiveBytes,
  kRequestedBytes,
  kReservedBytes,
  kInactiveSplitBytes,
  kAllocation,
  kActive,
  kSegment,
  kInactiveSplit,
};
inline constexpr std::size_t kStatCount = 9;

struct StatUsage {
  Usage all;
  Usage large_pool;
  Usage small_pool;

  bool operator==(const StatUsage&) const = default;
};

struct MemoryStats {
  std::optional<std::int64_t> device;
  std::array<StatUsage, kStatCount> stats;
  Usage oversize_allocations;
  Usage oversize_segments;
  std::optional<std::int64_t> num_ooms;
  std::optional<std::int64_t> num_alloc_retries;
  std::optional<std::int64_t> num_sync_all_streams;
  std::optional<std::int64_t> num_device_alloc;
  std::optional<std::int64_t> num_device_free;
  std::optional<std::int64_t> num_oom_rejections;  // PyTorch 2.12+
  std::optional<std::int64_t> max_split_size;      // -1 is unlimited

  [[nodiscard]] const StatUsage& of(Stat stat) const { return stats[static_cast<std::size_t>(stat)]; }
  bool operator==(const MemoryStats&) const = default;
};

// "allocated_bytes", as memory_stats() spells it.
[[nodiscard]] std::string_view stat_name(Stat stat);

// Whether the text can be JSON of memory_stats(): it begins with a brace and names one of the counters.
[[nodiscard]] bool looks_like_memory_stats(std::string_view text);

// `name` is the file's, for messages.
[[nodiscard]] Result<MemoryStats> read_memory_stats(std::string_view name, std::string_view json);

// Wants what every source has, current and peak of allocated and reserved bytes, and no current use above its peak.
[[nodiscard]] Status check_memory_stats(const MemoryStats& stats);

}  // namespace plimsoll::snapshot
