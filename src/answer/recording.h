// SPDX-License-Identifier: Apache-2.0
// A recorded history that has been replayed once, under its own settings: what replay and diff both start from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "replay/attribution.h"
#include "replay/exact.h"
#include "replay/limits.h"
#include "replay/recorded_settings.h"
#include "replay/whatif.h"
#include "snapshot/memory_stats.h"

namespace plimsoll::answer {

struct Recording {
  std::string path;
  std::unique_ptr<snapshot::Snapshot> snapshot;
  std::int64_t device = 0;
  replay::RecordedSettings recorded;
  std::optional<replay::History> history;  // absent: the snapshot has segments only
  replay::ExactReplay exact;
  replay::Run run;  // under the recorded settings: the exact one where it is, else simulated
  std::optional<replay::InferredLimit> inferred;
  replay::RecordedLimits limits;
  replay::Surroundings surroundings;  // for other settings
  std::vector<std::string> warnings;

  // The segments after an operation under the recorded settings, or at the end without a history.
  [[nodiscard]] std::vector<allocator::SegmentView> state_after(std::uint32_t op) const;
};

// What a snapshot does not say of itself.
struct RecordingConditions {
  std::optional<std::int64_t> device;  // the busiest one where absent
  std::optional<allocator::Version> torch;
  std::string gpu;                       // its capacity is the limit; "" where not known
  std::optional<std::int64_t> capacity;  // what PyTorch can take of the device, bytes
  std::optional<double> fraction;        // a memory fraction that was set through the API
};

// A file is a snapshot, or holds PyTorch's counters: memory_stats() as JSON, memory_summary() as text.
struct RecordingFile {
  std::unique_ptr<snapshot::Snapshot> snapshot;  // null: counters
  std::vector<snapshot::MemoryStats> counters;
};
// A captured step is one, too: as `gpu`, or the typical one whose kernels it has, would have recorded it.
[[nodiscard]] Result<RecordingFile> read_recording_file(const std::string& path, const std::string& gpu = {});

// `watcher` sees the replay under the recorded settings.
[[nodiscard]] Result<Recording> load_recording(const std::string& path, std::unique_ptr<snapshot::Snapshot> snapshot,
                                               const RecordingConditions& conditions,
                                               replay::Watcher* watcher = nullptr);

// The final segments of a snapshot's device, with the number of its block as owner.
[[nodiscard]] std::vector<allocator::SegmentView> final_segments(const snapshot::Snapshot& snapshot,
                                                                 std::int64_t device);

}  // namespace plimsoll::answer
