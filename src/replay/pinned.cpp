// SPDX-License-Identifier: Apache-2.0
#include "replay/pinned.h"

#include <algorithm>

#include "base/checked.h"

namespace plimsoll::replay {

namespace {

// Granules are counted from the start of the run, which is where a range begins unless it was unmapped in front.
std::int64_t whole_granules(const allocator::SegmentView& segment, const allocator::BlockView& block,
                            const allocator::Settings& settings) {
  const std::int64_t granule = segment.small ? allocator::kSmallSegment : settings.large_segment;
  const auto offset = static_cast<std::int64_t>(block.address - segment.address);
  return std::max<std::int64_t>((offset + block.size) / granule * granule - round_up(offset, granule), 0);
}

}  // namespace

Pinned find_pinned(const std::vector<allocator::SegmentView>& segments, const allocator::Settings& settings) {
  Pinned result;
  for (const allocator::SegmentView& segment : segments) {
    PinnedSegment pinned{segment.address, segment.size, 0, 0, {}};
    std::int64_t returnable = 0;
    for (const allocator::BlockView& block : segment.blocks) {
      if (block.state != allocator::BlockState::kFree) {
        pinned.holders.push_back({block.owner, block.size});
        result.allocated += block.size;
        continue;
      }
      const std::int64_t goes_back = segment.expandable ? whole_granules(segment, block, settings) : 0;
      pinned.idle += block.size;
      pinned.largest_idle = std::max(pinned.largest_idle, block.size - goes_back);
      returnable += goes_back;
    }
    if (pinned.holders.empty() && !segment.expandable) returnable = pinned.idle;
    result.reserved += segment.size;
    result.returnable += returnable;
    pinned.idle -= returnable;
    if (pinned.idle == 0) continue;
    result.idle += pinned.idle;
    result.largest_idle = std::max(result.largest_idle, pinned.largest_idle);
    std::sort(pinned.holders.begin(), pinned.holders.end(),
              [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
    result.segments.push_back(std::move(pinned));
  }
  std::sort(result.segments.begin(), result.segments.end(),
            [](const PinnedSegment& a, const PinnedSegment& b) { return a.idle > b.idle; });
  return result;
}

}  // namespace plimsoll::replay
