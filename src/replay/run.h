// SPDX-License-Identifier: Apache-2.0
// A history replayed under settings and limits of the caller's choice: peaks, driver calls, and whether memory would
// have run out. The driver is simulated, so addresses are its own; everything else that decides is from the record.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/caching.h"
#include "replay/history.h"

namespace plimsoll::replay {

struct Conditions {
  allocator::Settings settings;
  std::int64_t capacity = allocator::kUnlimited;  // bytes that PyTorch can take of the device
  std::int64_t total = 0;                         // bytes of the device; 0: as the capacity
  allocator::Placement placement = allocator::Placement::kAsSeen;
};

struct RunOutOfMemory {
  std::uint32_t op = 0;
  std::uint32_t event = kNever;  // kNever: what was alive before the recording does not fit
  std::int64_t requested = 0;
  std::int64_t asked = 0;      // of the driver
  std::int64_t missing = 0;    // bytes short of serving it from the driver
  std::int64_t allocated = 0;  // then
  std::int64_t reserved = 0;   // then, after everything that could go back had gone back
  std::int64_t largest_free = 0;
  bool was_recorded = false;  // the recorded run failed here too
  bool would_hit = false;     // a cached block would serve the request if it were simply repeated (PyTorch #189504)
};

// The highest point within an equal share of the operations.
struct Sample {
  std::uint32_t event = 0;  // at its end
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
};

struct Run {
  allocator::Stats stats;  // peaks are those of the whole run
  std::uint32_t peak_allocated_op = 0;
  std::uint32_t peak_reserved_op = 0;
  std::int64_t allocated_at_peak_reserved = 0;
  // The first request that was not served. A recorded program may have survived its own; after any other the record
  // says nothing more, and the run ends.
  std::optional<RunOutOfMemory> oom;
  std::vector<Sample> samples;
  bool finished = false;  // every operation was played

  // Share of the reserved bytes that nobody used when most was reserved.
  [[nodiscard]] double fragmentation() const {
    if (stats.peak_reserved == 0) return 0;
    return 1 - static_cast<double>(stats.peak_allocated) / static_cast<double>(stats.peak_reserved);
  }
};

inline constexpr std::size_t kSamples = 64;

// Of all requests, served or not.
[[nodiscard]] std::int64_t largest_request(const History& history);

class Watcher;

[[nodiscard]] Run run(const History& history, const Conditions& conditions, Watcher* watcher = nullptr);

// The allocator's segments after an operation of a run under these conditions; owners are objects.
[[nodiscard]] std::vector<allocator::SegmentView> state_after(const History& history, const Conditions& conditions,
                                                              std::uint32_t op);

}  // namespace plimsoll::replay
