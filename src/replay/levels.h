// SPDX-License-Identifier: Apache-2.0
// What a replay leaves behind of its way: the block of every object and every change of what is reserved. From these,
// what is allocated can be had at any event without replaying again; 4 bytes per object are kept, none per event.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/watcher.h"

namespace plimsoll::replay {

class Levels final : public Watcher {
 public:
  struct Change {
    std::uint32_t event = 0;
    std::int64_t reserved = 0;  // from this event on
  };

  void begin(const History& history, const allocator::Stats& stats) override;
  void after(const Op& op, const allocator::Stats& stats) override;

  // Bytes of the block that served an object; 0 where none did.
  [[nodiscard]] std::int64_t block_of(std::uint32_t object) const { return std::int64_t{units_[object]} * kUnit; }
  [[nodiscard]] std::int64_t allocated_at_start() const { return allocated_at_start_; }
  [[nodiscard]] const std::vector<Change>& changes() const { return changes_; }
  // The last event that was played; a replay that ran out of memory ends before the history does.
  [[nodiscard]] std::uint32_t last_event() const { return last_event_; }

 private:
  static constexpr std::int64_t kUnit = 512;  // every block is a multiple (facts pytorch-allocator.md 1)

  std::vector<std::uint32_t> units_;
  std::vector<Change> changes_;
  std::int64_t allocated_at_start_ = 0;
  std::int64_t allocated_ = 0;
  std::uint32_t last_event_ = 0;
};

}  // namespace plimsoll::replay
