// SPDX-License-Identifier: Apache-2.0
#include "replay/recorded_driver.h"

#include <fmt/format.h>

#include "replay/event_text.h"

namespace plimsoll::replay {

using allocator::Address;
using snapshot::Action;

std::optional<std::uint32_t> RecordedDriver::first_map() const {
  for (std::size_t at = next_; at < last_; ++at)
    if (history_.snapshot->events.action[history_.driver_events[at]] == Action::kSegmentMap)
      return history_.driver_events[at];
  return std::nullopt;
}

// Consumes the next call of the script when it is this one.
bool RecordedDriver::expect(Action action, std::optional<Address> address, std::int64_t bytes) {
  const snapshot::Events& events = history_.snapshot->events;
  if (!finished()) {
    const std::uint32_t event = history_.driver_events[next_];
    if (events.action[event] == action && events.size[event] == bytes &&
        (!address || events.address[event] == *address)) {
      ++next_;
      return true;
    }
  }
  if (!difference_)
    difference_ =
        Difference{finished() ? kNever : history_.driver_events[next_],
                   finished() ? "no call to the driver" : event_text(*history_.snapshot, history_.driver_events[next_]),
                   address ? fmt::format("{} of {} bytes at {:#x}", snapshot::action_name(action), bytes, *address)
                           : fmt::format("{} of {} bytes", snapshot::action_name(action), bytes)};
  return false;
}

std::optional<Address> RecordedDriver::allocate(std::int64_t bytes) {
  if (finished() || next_gives()) return std::nullopt;  // the recorded call failed too
  const std::size_t at = next_;
  if (!expect(Action::kSegmentAlloc, std::nullopt, bytes)) return std::nullopt;
  return history_.snapshot->events.address[history_.driver_events[at]];
}

void RecordedDriver::release(Address address, std::int64_t bytes) { expect(Action::kSegmentFree, address, bytes); }

Address RecordedDriver::reserve_range(std::int64_t) {
  if (!finished() && next_action() == Action::kSegmentMap)
    return history_.snapshot->events.address[history_.driver_events[next_]];
  return allocator::kUnplaced + (static_cast<Address>(unplaced_++) << 48);
}

bool RecordedDriver::map(Address address, std::int64_t bytes) {
  if (finished() || next_gives()) return false;
  return expect(Action::kSegmentMap, address, bytes);
}

void RecordedDriver::unmap(Address address, std::int64_t bytes) { expect(Action::kSegmentUnmap, address, bytes); }

}  // namespace plimsoll::replay
