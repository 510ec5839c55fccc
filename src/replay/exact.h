// SPDX-License-Identifier: Apache-2.0
// The self-check of a replay: under the recorded settings, with the driver answering as it was recorded to, every
// event must come out as it was recorded (action, size, stream, address), and so must the blocks at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/settings.h"
#include "replay/history.h"
#include "replay/run.h"

namespace plimsoll::replay {

struct Difference {
  std::uint32_t event = 0;  // in Snapshot::events; kNever: in the blocks at the end
  std::string recorded;
  std::string simulated;
};

struct ExactReplay {
  std::size_t events = 0;
  std::size_t reproduced = 0;  // before the first difference
  std::optional<Difference> first_difference;
  std::optional<bool> final_blocks_equal;   // absent where the snapshot has none, or the events already differ
  std::vector<std::uint32_t> empty_caches;  // numbers of the ops before which the program emptied the cache
  Run run;                                  // as far as it is reproduced

  [[nodiscard]] bool exact() const { return !first_difference; }
};

// What is known of the memory that the recorded process could take.
struct RecordedLimits {
  std::int64_t total = 0;                // bytes of the device; 0: unknown
  std::optional<std::int64_t> reserved;  // no more than this could be reserved
};

[[nodiscard]] ExactReplay replay_exactly(const History& history, const allocator::Settings& settings,
                                         const RecordedLimits& limits, Watcher* watcher = nullptr);

// The segments after an operation of such a replay, which reproduces the events up to it.
[[nodiscard]] std::vector<allocator::SegmentView> exact_state_after(const History& history,
                                                                    const allocator::Settings& settings,
                                                                    const RecordedLimits& limits, std::uint32_t op);

// The history with the program's own empty_cache() calls among its operations.
void insert_empty_caches(History& history, const std::vector<std::uint32_t>& before_ops);
// The same with those that a replay found; what it says of operations then names them by their new numbers.
void insert_empty_caches(History& history, ExactReplay& exact);

}  // namespace plimsoll::replay
