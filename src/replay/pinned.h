// SPDX-License-Identifier: Apache-2.0
// Memory that is reserved, unused, and cannot go back to the driver, because something alive lies in the same
// segment; and who that is.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/caching.h"
#include "replay/history.h"

namespace plimsoll::replay {

struct Holder {
  std::uint32_t object = 0;
  std::int64_t bytes = 0;  // of its block
};

struct PinnedSegment {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::int64_t idle = 0;  // bytes in it that nobody uses
  std::int64_t largest_idle = 0;
  std::vector<Holder> holders;  // largest first
};

struct Pinned {
  std::int64_t reserved = 0;
  std::int64_t allocated = 0;   // alive or pending
  std::int64_t returnable = 0;  // idle bytes that empty_cache() would return
  std::int64_t idle = 0;        // idle bytes that it would not
  std::int64_t largest_idle = 0;
  std::vector<PinnedSegment> segments;  // most idle first
};

// Of an expandable run the whole granules of a free block go back (facts pytorch-allocator.md 7b).
[[nodiscard]] Pinned find_pinned(const std::vector<allocator::SegmentView>& segments,
                                 const allocator::Settings& settings);

}  // namespace plimsoll::replay
