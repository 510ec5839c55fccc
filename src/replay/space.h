// SPDX-License-Identifier: Apache-2.0
// A recording over its addresses: where every block lies, when, and what is empty between them. Addresses that no
// segment ever held are left out, so that a device's memory is one stretch of bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/caching.h"
#include "replay/course.h"

namespace plimsoll::replay {

class Space {
 public:
  explicit Space(const Course& course);

  // Bytes of all addresses that segments ever held.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  // Where an address lies among them.
  [[nodiscard]] std::int64_t place_of(std::uint64_t address) const;

  struct Block {
    std::uint32_t object = 0;
    std::uint32_t first = 0;  // events, counted from the first of the device
    std::uint32_t last = 0;   // given up there; the number of events where it is not
    std::int64_t place = 0;
    std::int64_t size = 0;
  };
  struct Window {
    std::uint32_t first = 0;  // events
    std::uint32_t last = 0;
    std::int64_t low = 0;  // places
    std::int64_t high = 0;
    std::size_t most = 0;            // blocks
    std::int64_t smallest_size = 0;  // smaller blocks would not be seen
    std::uint32_t shortest = 0;      // nor those that live for fewer events
  };
  // The blocks that cover most of a window, largest first; `left_out` counts the visible ones beyond `most`.
  [[nodiscard]] std::vector<Block> blocks(const Window& window, std::size_t& left_out) const;

  // The segments after an event, with their blocks; owners are objects.
  [[nodiscard]] std::vector<allocator::SegmentView> segments_after(std::uint32_t event) const;

  [[nodiscard]] std::uint64_t address_of(std::uint32_t object) const;

 private:
  struct Range {
    std::uint64_t address = 0;
    std::int64_t size = 0;
    std::int64_t place = 0;
  };
  [[nodiscard]] Block block_of(std::uint32_t object) const;
  void add_if_seen(std::uint32_t object, const Window& window, std::vector<Block>& seen) const;

  const Course& course_;
  std::vector<Range> ranges_;  // by address, apart from each other
  std::int64_t bytes_ = 0;
  std::vector<std::uint32_t> large_;  // objects that are seen without zooming in
  std::int64_t large_size_ = 0;
};

}  // namespace plimsoll::replay
