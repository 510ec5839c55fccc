// SPDX-License-Identifier: Apache-2.0
// What a memory snapshot taken beside the log adds to a diagnosis: the pieces when memory ran out, who keeps them from
// going back, what grows from step to step, and who held the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "why/diagnosis.h"

namespace plimsoll::answer {

struct SnapshotLeak {
  std::int64_t per_step = 0;
  std::int64_t grown = 0;  // over the steps looked at
  std::string made_at;
};

struct SnapshotHolder {
  std::int64_t bytes = 0;
  std::string made_at;
};

struct SnapshotEvidence {
  std::string path;
  std::string when;  // "when memory ran out", "at its end", "when most was reserved"
  std::int64_t reserved = 0;
  std::int64_t in_use = 0;
  std::int64_t cached = 0;
  std::int64_t largest_free = 0;
  std::int64_t pinned = 0;  // idle, and kept from the driver by something alive in the same segment
  std::vector<SnapshotHolder> pinned_by;
  std::vector<SnapshotHolder> holders;  // largest first
  std::size_t steps = 0;                // 0: too short a history to speak of growth
  bool by_optimizer = false;
  std::vector<SnapshotLeak> leaks;  // fastest first
};

[[nodiscard]] Result<SnapshotEvidence> read_snapshot_evidence(const std::string& path);

// Lets the snapshot decide what the log leaves open: pieces, a leak. The reasons name what it shows.
void settle_by_snapshot(const SnapshotEvidence& evidence, why::Diagnosis& diagnosis);

// Sentences for the notes of the diagnosis.
[[nodiscard]] std::vector<std::string> notes_of(const SnapshotEvidence& evidence, const why::Diagnosis& diagnosis);

}  // namespace plimsoll::answer
