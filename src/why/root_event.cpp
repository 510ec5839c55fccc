// SPDX-License-Identifier: Apache-2.0
// Which of the lines that report a failure the failure began with.
#include "why/root_event.h"

#include <algorithm>

namespace plimsoll::why {

namespace {

// How directly a kind of line names a cause; lower is more direct. Echoes come last.
int directness(const Event& event) {
  switch (event.signal.kind) {
    case SignalKind::kHostKill:
    case SignalKind::kInterop:
      return 0;
    case SignalKind::kDescriptors:
    case SignalKind::kManagedMemory:
    case SignalKind::kObjectStore:
      return 0;
    case SignalKind::kSharedMemory:
    case SignalKind::kHostAllocation:
    case SignalKind::kPinnedMemory:
    case SignalKind::kBlockLimit:
    case SignalKind::kDiskFull:
      return 1;
    case SignalKind::kDeviceOom:
    case SignalKind::kEngineOom:
    case SignalKind::kNcclMemory:
    case SignalKind::kNoCacheBlocks:
    case SignalKind::kCacheTooShort:
    case SignalKind::kNotFreeAtStart:
    case SignalKind::kSkippedBatch:
      return event.signal.is_warning ? 4 : 2;
    case SignalKind::kAddressing:
    case SignalKind::kKernelResources:
    case SignalKind::kDiskWrite:
    case SignalKind::kConvWorkspace:
    case SignalKind::kMaskedOom:
    case SignalKind::kUnclearMemory:
      return 3;
    case SignalKind::kLibraryAlloc:
    case SignalKind::kCaptureInvalid:
    case SignalKind::kConfig:
    case SignalKind::kTimeLimit:
      return 4;
    case SignalKind::kKilled:
    case SignalKind::kNcclRegister:
    case SignalKind::kInvalidArgument:
      return 5;
    case SignalKind::kException:
      return event.has_frames ? 6 : 7;
    case SignalKind::kUnclear:
      // That something was raised, and neither what nor where: every other line says more.
      if (event.signal.message.empty() && !event.has_frames) return 10;
      return event.has_frames ? 7 : 8;
    case SignalKind::kLibraryOther:
      return 6;
    case SignalKind::kAbort:
      return 8;
    case SignalKind::kCollectiveTimeout:
      return 9;
    case SignalKind::kInterrupted:
    case SignalKind::kPeerLost:
      return 10;
    case SignalKind::kExit:
      return 11;
  }
  return 11;
}

std::int64_t steps_of_attempt(const Findings& findings, std::size_t attempt) {
  return attempt < findings.attempt_ends.size() ? findings.attempt_ends[attempt] : findings.steps;
}

}  // namespace

bool went_on(const Findings& findings, const Event& event) {
  switch (event.signal.kind) {
    case SignalKind::kSkippedBatch:
    case SignalKind::kHostKill:
    case SignalKind::kKilled:
    case SignalKind::kTimeLimit:
    case SignalKind::kPeerLost:
      return false;
    default:
      return steps_of_attempt(findings, event.attempt) - event.steps_before >= 3;
  }
}

const Event* choose_root(const Findings& findings) {
  const Event* best = nullptr;
  const auto score = [&](const Event& event) {
    int value = 10 * directness(event);
    // The launcher knows which rank died first; others may have died of it.
    if (findings.root_rank && event.rank && *event.rank != *findings.root_rank) value += 5;
    // It died of an exception: the kills are the launcher's.
    if (findings.root_exit && *findings.root_exit > 0 && *findings.root_exit < 128 &&
        event.signal.kind == SignalKind::kKilled)
      value += 25;
    if (findings.root_exit && (*findings.root_exit == -9 || *findings.root_exit == 137) &&
        event.signal.kind == SignalKind::kKilled)
      value -= 12;
    // Of two lines about the same thing, the one with figures and frames.
    if (event.signal.kind == SignalKind::kDeviceOom) value -= event.signal.oom.has_sizes() ? 1 : 0;
    // An engine that names the pool says more than that memory was short.
    if (event.signal.kind == SignalKind::kNoCacheBlocks) value -= 2;
    if (event.has_frames) value -= 2;
    return value;
  };
  const bool skips = std::any_of(findings.events.begin(), findings.events.end(),
                                 [](const Event& event) { return event.signal.kind == SignalKind::kSkippedBatch; });
  for (const Event& event : findings.events) {
    if (went_on(findings, event)) continue;
    // The message of a batch that was then skipped.
    if (skips && event.signal.kind == SignalKind::kDeviceOom && !event.has_frames) continue;
    // Of equals the first: by the clock where both have one, since the files of ranks are read one after the other.
    if (best == nullptr || score(event) < score(*best) ||
        (score(event) == score(*best) && event.clock.is_before(best->clock)))
      best = &event;
  }
  return best;
}

const Event* last_words(const Findings& findings) {
  constexpr std::int64_t kEnd = 12;  // lines
  if (!findings.last_error || findings.finished || went_on(findings, *findings.last_error)) return nullptr;
  const Event& error = *findings.last_error;
  return error.place.line + kEnd > findings.files[error.place.file].lines ? &error : nullptr;
}

}  // namespace plimsoll::why
