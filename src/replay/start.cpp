// SPDX-License-Identifier: Apache-2.0
#include "replay/start.h"

#include <algorithm>
#include <map>

#include "base/checked.h"

namespace plimsoll::replay {

namespace {

using allocator::BlockState;
using allocator::BlockView;
using allocator::SegmentView;
using snapshot::Action;

using Regions = std::map<std::uint64_t, SegmentView>;  // by address, not overlapping

std::uint64_t end_of(const SegmentView& region) { return region.address + static_cast<std::uint64_t>(region.size); }

// Takes [address, address + size) out of the regions, cutting those that it touches.
void remove_region(Regions& regions, std::uint64_t address, std::int64_t size) {
  const std::uint64_t end = address + static_cast<std::uint64_t>(size);
  auto at = regions.upper_bound(address);
  if (at != regions.begin() && end_of(std::prev(at)->second) > address) --at;
  while (at != regions.end() && at->first < end) {
    const SegmentView region = at->second;
    at = regions.erase(at);
    if (region.address < address) {
      SegmentView front = region;
      front.size = static_cast<std::int64_t>(address - region.address);
      regions.emplace(front.address, std::move(front));
    }
    if (end_of(region) > end) {
      SegmentView back = region;
      back.address = end;
      back.size = static_cast<std::int64_t>(end_of(region) - end);
      at = regions.emplace(end, std::move(back)).first;
      ++at;
    }
  }
}

void add_region(Regions& regions, SegmentView region) {
  if (region.size <= 0) return;
  remove_region(regions, region.address, region.size);
  regions.emplace(region.address, std::move(region));
}

// Neighbouring runs of one expandable range are one run.
void join_runs(Regions& regions) {
  for (auto at = regions.begin(); at != regions.end(); ++at) {
    for (auto next = std::next(at); next != regions.end() && at->second.expandable && next->second.expandable &&
                                    end_of(at->second) == next->first && at->second.stream == next->second.stream &&
                                    at->second.pool == next->second.pool && at->second.small == next->second.small;
         next = std::next(at)) {
      at->second.size += next->second.size;
      regions.erase(next);
    }
  }
}

Regions final_regions(const History& history) {
  const snapshot::Snapshot& snapshot = *history.snapshot;
  Regions regions;
  for (std::uint32_t s = 0; s < snapshot.device_segments.count; ++s) {
    const snapshot::Segment& segment = snapshot.segments[snapshot.device_segments.first + s];
    if (segment.device != history.device) continue;
    const auto pool = std::find(history.pools.begin(), history.pools.end(), segment.pool);
    const auto number = pool == history.pools.end() ? 0 : pool - history.pools.begin();
    add_region(regions, {segment.address,
                         segment.total_size,
                         segment.stream,
                         static_cast<std::uint32_t>(number),
                         segment.is_small,
                         segment.is_expandable,
                         {}});
  }
  return regions;
}

// Without final segments nothing can be undone: what was given back without having been taken was there before.
void undo_driver_calls(const History& history, Regions& regions) {
  const snapshot::Events& events = history.snapshot->events;
  for (auto it = history.driver_events.rbegin(); it != history.driver_events.rend(); ++it) {
    const std::uint64_t address = events.address[*it];
    const std::int64_t size = events.size[*it];
    const Action action = events.action[*it];
    if (action == Action::kSegmentAlloc || action == Action::kSegmentMap) {
      remove_region(regions, address, size);
      continue;
    }
    const bool expandable = action == Action::kSegmentUnmap;
    add_region(regions, {address, size, events.stream[*it], 0, size == allocator::kSmallSegment, expandable, {}});
  }
  join_runs(regions);
}

// A block's size where no snapshot shows it: what was asked for, rounded, unless the gap that would remain is one
// that the allocator does not split off (facts pytorch-allocator.md 5).
std::int64_t block_size(const SegmentView& region, std::int64_t requested, std::int64_t room) {
  const std::int64_t rounded = std::min(round_up(std::max<std::int64_t>(requested, 1), allocator::kMinBlock), room);
  const std::int64_t least = region.small || region.expandable ? allocator::kMinBlock : allocator::kSmallSize + 1;
  return room - rounded >= least ? rounded : room;
}

// The first allocation behind a block that is still alive takes the front of the free memory behind it: there the
// block ends. This tells an unsplit rest, of up to 1 MiB, from free memory.
void find_ends(const History& history, const std::vector<Initial*>& sorted) {
  std::vector<bool> looked_at(sorted.size(), false);
  const snapshot::Events& events = history.snapshot->events;
  for (const Op& op : history.ops) {
    if (op.kind != OpKind::kAlloc) continue;
    const std::uint64_t address = events.address[op.event];
    const auto after = std::upper_bound(sorted.begin(), sorted.end(), address,
                                        [](std::uint64_t a, const Initial* initial) { return a < initial->address; });
    if (after == sorted.begin()) continue;
    const auto at = static_cast<std::size_t>(after - sorted.begin() - 1);
    Initial& initial = *sorted[at];
    if (looked_at[at] || initial.size > 0) continue;
    const std::uint32_t death = history.objects[initial.object].death;
    if (death != kNever && death < op.event) continue;
    looked_at[at] = true;
    const auto distance = static_cast<std::int64_t>(address - initial.address);
    const std::int64_t rounded = round_up(std::max<std::int64_t>(initial.requested, 1), allocator::kMinBlock);
    if (distance >= rounded && distance <= rounded + allocator::kSmallSize) initial.size = distance;
  }
}

void tile(SegmentView& region, std::vector<Initial*>::iterator first, std::vector<Initial*>::iterator last) {
  std::uint64_t at = region.address;
  const std::uint64_t end = end_of(region);
  const auto free_until = [&](std::uint64_t to) {
    if (to > at) region.blocks.push_back({at, static_cast<std::int64_t>(to - at), 0, BlockState::kFree, 0});
    at = to;
  };
  for (; first != last; ++first) {
    Initial& initial = **first;
    if (initial.address < at) continue;  // it would overlap the block before it: a contradiction, left out
    free_until(initial.address);
    const std::uint64_t limit = first + 1 != last ? std::min((*(first + 1))->address, end) : end;
    const auto room = static_cast<std::int64_t>(limit - at);
    if (initial.size <= 0 || initial.size > room) initial.size = block_size(region, initial.requested, room);
    if (initial.size <= 0) continue;
    region.blocks.push_back({at, initial.size, std::min(initial.requested, initial.size),
                             initial.pending ? BlockState::kPending : BlockState::kAllocated, initial.object});
    at += static_cast<std::uint64_t>(initial.size);
  }
  free_until(end);
}

}  // namespace

void find_start(History& history) {
  if (!history.has_final_segments && history.initial.empty()) return;
  Regions regions = final_regions(history);
  if (history.has_final_segments) undo_driver_calls(history, regions);
  std::vector<Initial*> sorted;
  for (Initial& initial : history.initial) sorted.push_back(&initial);
  std::sort(sorted.begin(), sorted.end(), [](const Initial* a, const Initial* b) { return a->address < b->address; });
  find_ends(history, sorted);
  auto next = sorted.begin();
  for (auto& [address, region] : regions) {
    while (next != sorted.end() && (*next)->address < address) ++next;  // outside every segment
    const auto first = next;
    while (next != sorted.end() && (*next)->address < end_of(region)) ++next;
    tile(region, first, next);
    history.start.push_back(std::move(region));
  }
}

}  // namespace plimsoll::replay
