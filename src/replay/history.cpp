// SPDX-License-Identifier: Apache-2.0
#include "replay/history.h"

#include <algorithm>

#include <fmt/format.h>

#include "replay/address_map.h"
#include "replay/start.h"

namespace plimsoll::replay {

using snapshot::Action;

namespace {

// Beyond these a table per pool and stream could fill memory; real programs have a few of each.
constexpr std::size_t kMostStreams = 4096;
constexpr std::size_t kMostPools = 1024;

class Reader {
 public:
  Reader(const snapshot::Snapshot& snapshot, History& history) : snapshot_(snapshot), history_(history) {}

  Status read() {
    const snapshot::Events& events = snapshot_.events;
    const std::uint32_t end = history_.events.first + history_.events.count;
    history_.ops.reserve(history_.events.count / 3 * 2 + 16);
    history_.objects.reserve(history_.events.count / 3 + 16);
    for (std::uint32_t event = history_.events.first; event < end; ++event) {
      switch (events.action[event]) {
        case Action::kAlloc:
          birth(event);
          break;
        case Action::kFreeRequested:
          request(event);
          break;
        case Action::kFreeCompleted:
          complete(event);
          break;
        case Action::kOom:
          add(OpKind::kOom, 0, event);
          break;
        case Action::kSegmentAlloc:
        case Action::kSegmentFree:
        case Action::kSegmentMap:
        case Action::kSegmentUnmap:
          history_.driver_events.push_back(event);
          break;
        case Action::kSnapshot:
        case Action::kUserDefined:
        case Action::kAnnotate:
        case Action::kOther:
          break;
      }
      if (history_.objects.size() >= kMostObjects)
        return bad_input(fmt::format("the history has more than {} allocations", kMostObjects));
    }
    add_ghosts();
    return {};
  }

 private:
  void add(OpKind kind, std::uint32_t object, std::uint32_t event) { history_.ops.emplace_back(kind, object, event); }

  std::uint32_t new_object(std::uint32_t birth_event, std::uint64_t address) {
    const auto object = static_cast<std::uint32_t>(history_.objects.size());
    history_.objects.push_back({birth_event, kNever});
    live_.insert(address, object);
    return object;
  }

  void birth(std::uint32_t event) {
    const std::uint64_t address = snapshot_.events.address[event];
    if (const std::uint32_t old = live_.find(address); old != AddressMap::kAbsent) {
      // Its death was not recorded; it must have happened before.
      ++history_.overwritten;
      if (history_.objects[old].death == kNever) {
        history_.objects[old].death = event;
        add(OpKind::kFree, old, event);
      } else {
        add(OpKind::kCompleteFree, old, event);
      }
      live_.erase(address);
    }
    add(OpKind::kAlloc, new_object(event, address), event);
  }

  std::uint32_t find_or_make_initial(std::uint32_t event, bool pending) {
    const std::uint64_t address = snapshot_.events.address[event];
    const std::uint32_t found = live_.find(address);
    if (found != AddressMap::kAbsent) return found;
    const std::uint32_t object = new_object(kNever, address);
    Initial initial;
    initial.object = object;
    initial.address = address;
    initial.requested = snapshot_.events.size[event];
    initial.stream = snapshot_.events.stream[event];
    initial.pending = pending;
    history_.initial.push_back(initial);
    if (pending) history_.objects[object].death = event;
    return object;
  }

  void request(std::uint32_t event) {
    const std::uint32_t object = find_or_make_initial(event, false);
    if (history_.objects[object].death != kNever) return;  // asked for twice: the first counts
    history_.objects[object].death = event;
    add(OpKind::kRequestFree, object, event);
  }

  void complete(std::uint32_t event) {
    const std::uint32_t object = find_or_make_initial(event, true);
    Op* last = history_.ops.empty() ? nullptr : &history_.ops.back();
    if (last != nullptr && last->kind == OpKind::kRequestFree && last->object == object && last->event + 1 == event) {
      last->kind = OpKind::kFree;
    } else if (history_.objects[object].death == kNever) {  // free_requested was not recorded (skip_actions)
      history_.objects[object].death = event;
      add(OpKind::kFree, object, event);
    } else {
      add(OpKind::kCompleteFree, object, event);
    }
    live_.erase(snapshot_.events.address[event]);
  }

  // Blocks that the final segments hold and no event made (facts snapshot-format.md 6).
  void add_ghosts() {
    const snapshot::Range range = snapshot_.device_segments;
    for (std::uint32_t s = range.first; s < range.first + range.count; ++s) {
      const snapshot::Segment& segment = snapshot_.segments[s];
      if (segment.device != history_.device) continue;
      for (std::uint32_t b = segment.blocks.first; b < segment.blocks.first + segment.blocks.count; ++b) {
        const snapshot::Block& block = snapshot_.blocks[b];
        if (block.state == snapshot::BlockState::kInactive || live_.find(block.address) != AddressMap::kAbsent)
          continue;
        Initial initial;
        initial.object = new_object(kNever, block.address);
        initial.address = block.address;
        initial.requested = block.requested_size.value_or(block.size);
        initial.size = block.size;
        initial.stream = segment.stream;
        initial.stack = block.stack;
        initial.pending = block.state == snapshot::BlockState::kActivePendingFree;
        history_.initial.push_back(initial);
      }
    }
  }

  const snapshot::Snapshot& snapshot_;
  History& history_;
  AddressMap live_;
};

// Private pools by the note of an event (PyTorch 2.12+), else by the final segment that lies at its address.
Status find_pools(const snapshot::Snapshot& snapshot, History& history) {
  history.pools.push_back({});
  struct Private {
    const snapshot::Segment* segment;
    std::uint32_t since;  // the event that made it; what lay there before belonged to another segment
  };
  std::vector<Private> segments;
  for (std::uint32_t s = 0; s < snapshot.device_segments.count; ++s) {
    const snapshot::Segment& segment = snapshot.segments[snapshot.device_segments.first + s];
    if (segment.device == history.device && segment.pool != snapshot::PoolId{}) segments.push_back({&segment, 0});
  }
  const bool noted = std::any_of(snapshot.notes.begin(), snapshot.notes.end(),
                                 [](const snapshot::Note& note) { return note.pool != snapshot::PoolId{}; });
  if (segments.empty() && !noted) return {};
  std::sort(segments.begin(), segments.end(),
            [](const Private& a, const Private& b) { return a.segment->address < b.segment->address; });
  const auto segment_at = [&segments](std::uint64_t address) -> Private* {
    const auto after =
        std::upper_bound(segments.begin(), segments.end(), address,
                         [](std::uint64_t a, const Private& candidate) { return a < candidate.segment->address; });
    if (after == segments.begin()) return nullptr;
    Private& found = *std::prev(after);
    return address - found.segment->address < static_cast<std::uint64_t>(found.segment->total_size) ? &found : nullptr;
  };
  for (const std::uint32_t call : history.driver_events) {
    Private* found = segment_at(snapshot.events.address[call]);
    if (found == nullptr) continue;
    const Action action = snapshot.events.action[call];
    if (action == Action::kSegmentAlloc) found->since = call;
    if (action == Action::kSegmentMap && found->since == 0) found->since = call;
    if (action == Action::kSegmentUnmap) found->since = 0;
  }
  const auto number_of = [&history](const snapshot::PoolId& pool) {
    const auto found = std::find(history.pools.begin(), history.pools.end(), pool);
    if (found != history.pools.end()) return static_cast<std::uint32_t>(found - history.pools.begin());
    history.pools.push_back(pool);
    return static_cast<std::uint32_t>(history.pools.size() - 1);
  };
  const auto pool_at = [&](std::uint64_t address, std::uint32_t event) -> snapshot::PoolId {
    const Private* found = segment_at(address);
    return found != nullptr && event >= found->since ? found->segment->pool : snapshot::PoolId{};
  };
  history.object_pools.resize(history.objects.size());
  for (std::uint32_t object = 0; object < history.objects.size(); ++object) {
    const std::uint32_t birth = history.objects[object].birth;
    if (birth == kNever) continue;
    const snapshot::Note* note = noted ? snapshot.note_of(birth) : nullptr;
    const snapshot::PoolId pool = note != nullptr && note->pool != snapshot::PoolId{}
                                      ? note->pool
                                      : pool_at(snapshot.events.address[birth], birth);
    if (pool != snapshot::PoolId{}) history.object_pools[object] = number_of(pool);
    if (history.pools.size() > kMostPools)
      return bad_input(fmt::format("the history uses more than {} private pools", kMostPools));
  }
  for (const Initial& initial : history.initial)
    history.object_pools[initial.object] = number_of(pool_at(initial.address, history.events.first));
  return {};
}

}  // namespace

std::int64_t History::bytes_of(std::uint32_t object) const {
  const std::uint32_t birth = objects[object].birth;
  return birth != kNever ? snapshot->events.size[birth] : initial_of(object)->requested;
}

std::uint32_t History::stream_of(std::uint32_t object) const {
  const std::uint32_t birth = objects[object].birth;
  return birth != kNever ? snapshot->events.stream[birth] : initial_of(object)->stream;
}

std::uint32_t History::stack_of(std::uint32_t object) const {
  const std::uint32_t birth = objects[object].birth;
  return birth != kNever ? snapshot->events.stack[birth] : initial_of(object)->stack;
}

const Initial* History::initial_of(std::uint32_t object) const {
  const auto at = std::lower_bound(initial.begin(), initial.end(), object,
                                   [](const Initial& i, std::uint32_t number) { return i.object < number; });
  return at != initial.end() && at->object == object ? &*at : nullptr;
}

std::int64_t busiest_device(const snapshot::Snapshot& snapshot) {
  std::int64_t best = -1;
  std::uint32_t most = 0;
  for (std::size_t device = 0; device < snapshot.devices.size(); ++device) {
    if (snapshot.devices[device].events.count <= most) continue;
    most = snapshot.devices[device].events.count;
    best = static_cast<std::int64_t>(device);
  }
  return best;
}

Result<History> read_history(const snapshot::Snapshot& snapshot, std::int64_t device) {
  if (device < 0 || device >= static_cast<std::int64_t>(snapshot.devices.size()))
    return bad_input(
        fmt::format("device {} has no history; the snapshot has {} devices", device, snapshot.devices.size()));
  if (snapshot.streams.size() > kMostStreams)
    return bad_input(fmt::format("the snapshot names {} streams; at most {} can be replayed", snapshot.streams.size(),
                                 kMostStreams));
  History history;
  history.snapshot = &snapshot;
  history.device = device;
  history.events = snapshot.devices[static_cast<std::size_t>(device)].events;
  for (std::uint32_t s = 0; s < snapshot.device_segments.count; ++s)
    history.has_final_segments |= snapshot.segments[snapshot.device_segments.first + s].device == device;
  Reader reader(snapshot, history);
  PLIMSOLL_TRY_STATUS(reader.read());
  PLIMSOLL_TRY_STATUS(find_pools(snapshot, history));
  find_start(history);
  return history;
}

}  // namespace plimsoll::replay
