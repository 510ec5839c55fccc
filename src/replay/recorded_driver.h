// SPDX-License-Identifier: Apache-2.0
// A device that answers as the recorded one did. Each operation brings the driver calls that were recorded before
// it as a script; a call that is not the next of the script is refused, or is a difference.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "allocator/driver.h"
#include "replay/exact.h"
#include "replay/history.h"

namespace plimsoll::replay {

class RecordedDriver final : public allocator::Driver {
 public:
  RecordedDriver(const History& history, std::int64_t total) : history_(history), total_(total) {}

  // The script becomes the driver events [first, last) of the history; what was left of the old one is forgotten.
  void set_script(std::size_t first, std::size_t last) {
    next_ = first;
    last_ = last;
  }
  [[nodiscard]] bool finished() const { return next_ == last_; }
  [[nodiscard]] std::size_t position() const { return next_; }
  [[nodiscard]] snapshot::Action next_action() const {
    return history_.snapshot->events.action[history_.driver_events[next_]];
  }
  [[nodiscard]] bool next_gives() const {
    return !finished() &&
           (next_action() == snapshot::Action::kSegmentFree || next_action() == snapshot::Action::kSegmentUnmap);
  }
  // The first call that was not recorded so.
  [[nodiscard]] std::optional<Difference> take_difference() { return std::exchange(difference_, std::nullopt); }
  // The next segment_map of the script, wherever it stands in it.
  [[nodiscard]] std::optional<std::uint32_t> first_map() const;

  std::optional<allocator::Address> allocate(std::int64_t bytes) override;
  void release(allocator::Address address, std::int64_t bytes) override;
  allocator::Address reserve_range(std::int64_t bytes) override;
  void drop_range(allocator::Address, std::int64_t) override {}
  bool map(allocator::Address address, std::int64_t bytes) override;
  void unmap(allocator::Address address, std::int64_t bytes) override;
  [[nodiscard]] std::int64_t total() const override { return total_; }

 private:
  bool expect(snapshot::Action action, std::optional<allocator::Address> address, std::int64_t bytes);

  const History& history_;
  std::int64_t total_;
  std::size_t next_ = 0;
  std::size_t last_ = 0;
  std::int64_t unplaced_ = 0;
  std::optional<Difference> difference_;
};

}  // namespace plimsoll::replay
