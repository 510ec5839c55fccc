// SPDX-License-Identifier: Apache-2.0
#include "replay/limits.h"

#include <algorithm>

#include "base/checked.h"

namespace plimsoll::replay {

namespace {

std::int64_t segment_bytes(const allocator::Settings& settings, std::int64_t rounded) {
  if (rounded <= allocator::kSmallSize) return allocator::kSmallSegment;
  if (rounded < allocator::kMinLargeAlloc) return settings.large_segment;
  return round_up(rounded, allocator::kRoundLarge);
}

}  // namespace

std::optional<InferredLimit> infer_limit(const History& history, const allocator::Settings& settings) {
  const snapshot::Snapshot& snapshot = *history.snapshot;
  const snapshot::Events& events = snapshot.events;
  std::int64_t reserved = 0;
  for (const allocator::SegmentView& segment : history.start) reserved += segment.size;
  std::int64_t most = reserved;
  std::int64_t seen = 0;
  std::optional<InferredLimit> limit;
  const std::uint32_t end = history.events.first + history.events.count;
  std::size_t next = 0;
  const auto advance_to = [&](std::uint32_t event) {
    for (; next < history.driver_events.size() && history.driver_events[next] < event; ++next) {
      const std::uint32_t call = history.driver_events[next];
      const bool takes = events.action[call] == snapshot::Action::kSegmentAlloc ||
                         events.action[call] == snapshot::Action::kSegmentMap;
      reserved += takes ? events.size[call] : -events.size[call];
      most = std::max(most, reserved);
    }
  };
  for (const Op& op : history.ops) {
    if (op.kind != OpKind::kOom) continue;
    advance_to(op.event);
    const snapshot::Note* note = snapshot.note_of(op.event);
    const std::int64_t device_free = note != nullptr ? note->device_free.value_or(-1) : -1;
    const std::int64_t asked = segment_bytes(settings, events.size[op.event]);
    // With what the driver keeps for itself a request can fail though a little more than it was free.
    constexpr std::int64_t kDriverReserve = 64 << 20;
    InferredLimit found;
    found.fraction = device_free >= 0 && device_free > asked + kDriverReserve;
    found.high = reserved + (device_free >= 0 ? std::min(asked, device_free + 1) : asked);
    found.device_free = std::max<std::int64_t>(device_free, 0);
    found.event = op.event;
    seen = std::max(seen, reserved + found.device_free);
    if (!limit || found.high < limit->high) limit = found;
  }
  advance_to(end);
  if (limit) {
    limit->low = std::min(most, limit->high);
    limit->seen_on_device = seen;
  }
  return limit;
}

RecordedLimits recorded_limits(const KnownLimits& known, const std::optional<InferredLimit>& inferred) {
  RecordedLimits limits;
  limits.total = known.total;
  if (known.capacity > 0) limits.reserved = known.capacity;
  if (!inferred) return limits;
  if (!limits.reserved) limits.reserved = inferred->high - 1;
  return limits;
}

}  // namespace plimsoll::replay
