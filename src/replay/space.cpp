// SPDX-License-Identifier: Apache-2.0
#include "replay/space.h"

#include <algorithm>
#include <map>

namespace plimsoll::replay {

namespace {

// Rows of pixels of a large screen: what is smaller than a share of one is not seen without zooming in.
constexpr std::int64_t kRows = 4096;

}  // namespace

Space::Space(const Course& course) : course_(course) {
  const History& history = course.history();
  const snapshot::Events& events = history.snapshot->events;
  std::vector<Range> all;
  for (const allocator::SegmentView& segment : history.start) all.push_back({segment.address, segment.size, 0});
  for (const std::uint32_t event : history.driver_events)
    if (events.action[event] == snapshot::Action::kSegmentAlloc ||
        events.action[event] == snapshot::Action::kSegmentMap)
      all.push_back({events.address[event], events.size[event], 0});
  // A record that began late may show blocks before their segments.
  for (std::uint32_t object = 0; object < history.objects.size(); ++object)
    if (history.objects[object].birth == kNever)
      all.push_back({address_of(object), course.levels().block_of(object), 0});
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.address < b.address; });
  for (const Range& range : all) {
    if (range.size <= 0) continue;
    if (!ranges_.empty() && range.address <= ranges_.back().address + static_cast<std::uint64_t>(ranges_.back().size)) {
      const std::uint64_t end = range.address + static_cast<std::uint64_t>(range.size);
      ranges_.back().size = std::max(ranges_.back().size, static_cast<std::int64_t>(end - ranges_.back().address));
    } else {
      ranges_.push_back(range);
    }
  }
  for (Range& range : ranges_) {
    range.place = bytes_;
    bytes_ += range.size;
  }
  large_size_ = bytes_ / kRows;
  for (std::uint32_t object = 0; object < history.objects.size(); ++object)
    if (course.levels().block_of(object) >= std::max<std::int64_t>(large_size_, 1)) large_.push_back(object);
}

std::int64_t Space::place_of(std::uint64_t address) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](std::uint64_t at, const Range& range) { return at < range.address; });
  if (after == ranges_.begin()) return 0;
  const Range& range = *std::prev(after);
  return range.place + std::min(static_cast<std::int64_t>(address - range.address), range.size);
}

std::uint64_t Space::address_of(std::uint32_t object) const {
  const History& history = course_.history();
  const Object& life = history.objects[object];
  if (life.birth != kNever) return history.snapshot->events.address[life.birth];
  const Initial* initial = history.initial_of(object);
  return initial != nullptr ? initial->address : 0;
}

Space::Block Space::block_of(std::uint32_t object) const {
  const History& history = course_.history();
  const Object& life = history.objects[object];
  Block block;
  block.object = object;
  block.first = life.birth == kNever ? 0 : life.birth - history.events.first;
  block.last = life.death == kNever ? history.events.count : life.death - history.events.first;
  block.place = place_of(address_of(object));
  block.size = course_.levels().block_of(object);
  return block;
}

void Space::add_if_seen(std::uint32_t object, const Window& window, std::vector<Block>& seen) const {
  const History& history = course_.history();
  const Object& life = history.objects[object];
  if (course_.levels().block_of(object) < std::max<std::int64_t>(window.smallest_size, 1)) return;
  const std::uint32_t first = life.birth == kNever ? 0 : life.birth - history.events.first;
  const std::uint32_t last = life.death == kNever ? history.events.count : life.death - history.events.first;
  if (last < window.first || first >= window.last || last - first < window.shortest) return;
  const Block block = block_of(object);
  if (block.place + block.size <= window.low || block.place >= window.high) return;
  seen.push_back(block);
}

std::vector<Space::Block> Space::blocks(const Window& window, std::size_t& left_out) const {
  std::vector<Block> seen;
  if (window.smallest_size >= large_size_) {
    for (const std::uint32_t object : large_) add_if_seen(object, window, seen);
  } else {
    for (std::uint32_t object = 0; object < course_.history().objects.size(); ++object)
      add_if_seen(object, window, seen);
  }
  const auto area = [&window](const Block& block) {
    const double length = static_cast<double>(std::min(block.last, window.last)) -
                          static_cast<double>(std::max(block.first, window.first));
    return (length + 1) * static_cast<double>(block.size);
  };
  const std::size_t kept = std::min(window.most, seen.size());
  left_out = seen.size() - kept;
  std::partial_sort(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(kept), seen.end(),
                    [&area](const Block& a, const Block& b) { return area(a) > area(b); });
  seen.resize(kept);
  return seen;
}

std::vector<allocator::SegmentView> Space::segments_after(std::uint32_t event) const {
  const History& history = course_.history();
  const snapshot::Events& events = history.snapshot->events;
  const std::uint32_t at = history.events.first + event;
  // Bytes that the device has given out, by address: touching pieces of an expandable range are one.
  std::map<std::uint64_t, allocator::SegmentView> held;
  for (const allocator::SegmentView& segment : history.start) {
    allocator::SegmentView bare = segment;
    bare.blocks.clear();
    held[segment.address] = std::move(bare);
  }
  const auto take = [&held](std::uint64_t from, std::uint64_t to) {
    auto next = held.upper_bound(from);
    if (next != held.begin()) --next;
    while (next != held.end() && next->first < to) {
      allocator::SegmentView segment = next->second;
      const std::uint64_t end = segment.address + static_cast<std::uint64_t>(segment.size);
      if (end <= from) {
        ++next;
        continue;
      }
      next = held.erase(next);
      if (segment.address < from) {
        allocator::SegmentView before = segment;
        before.size = static_cast<std::int64_t>(from - segment.address);
        held[before.address] = before;
      }
      if (end > to) {
        segment.address = to;
        segment.size = static_cast<std::int64_t>(end - to);
        held[to] = segment;
      }
    }
  };
  for (const std::uint32_t call : history.driver_events) {
    if (call > at) break;
    const std::uint64_t from = events.address[call];
    const std::uint64_t to = from + static_cast<std::uint64_t>(std::max<std::int64_t>(events.size[call], 0));
    const snapshot::Action action = events.action[call];
    if (action == snapshot::Action::kSegmentFree || action == snapshot::Action::kSegmentUnmap) {
      take(from, to);
    } else {
      const bool expandable = action == snapshot::Action::kSegmentMap;
      held[from] = {from, events.size[call], events.stream[call], 0, false, expandable, {}};
    }
  }
  std::vector<allocator::SegmentView> segments;
  for (auto& [address, segment] : held) {
    const bool touches = !segments.empty() && segments.back().expandable && segment.expandable &&
                         segments.back().address + static_cast<std::uint64_t>(segments.back().size) == address;
    if (touches) {
      segments.back().size += segment.size;
    } else {
      segments.push_back(std::move(segment));
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint32_t>> alive;
  for (const std::uint32_t object : course_.alive_after(event)) alive.emplace_back(address_of(object), object);
  std::sort(alive.begin(), alive.end());
  std::size_t next = 0;
  for (allocator::SegmentView& segment : segments) {
    const std::uint64_t end = segment.address + static_cast<std::uint64_t>(segment.size);
    std::uint64_t filled = segment.address;
    while (next < alive.size() && alive[next].first < segment.address) ++next;
    for (; next < alive.size() && alive[next].first < end; ++next) {
      const std::uint32_t object = alive[next].second;
      const std::int64_t size =
          std::min(course_.levels().block_of(object), static_cast<std::int64_t>(end - alive[next].first));
      if (size <= 0 || alive[next].first < filled) continue;
      if (alive[next].first > filled)
        segment.blocks.push_back(
            {filled, static_cast<std::int64_t>(alive[next].first - filled), 0, allocator::BlockState::kFree, 0});
      segment.blocks.push_back(
          {alive[next].first, size, history.bytes_of(object), allocator::BlockState::kAllocated, object});
      filled = alive[next].first + static_cast<std::uint64_t>(size);
    }
    if (filled < end)
      segment.blocks.push_back({filled, static_cast<std::int64_t>(end - filled), 0, allocator::BlockState::kFree, 0});
  }
  return segments;
}

}  // namespace plimsoll::replay
