// SPDX-License-Identifier: Apache-2.0
// A recording over its events, in columns for a picture at any zoom. Sums are kept at every 256th operation only; what
// lies between is summed up when it is looked at. A column shows the instant of its range at which most is allocated.
// Invariant: the groups of a column sum to its allocated bytes; what no group holds is in the last one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/attribution.h"
#include "replay/levels.h"

namespace plimsoll::replay {

// Objects told apart by what they are for or who asked; the last group holds the rest.
struct Grouping {
  std::vector<std::string> names;
  std::vector<std::uint8_t> of_object;
  std::vector<std::int64_t> sums;  // at each mark, one per group

  [[nodiscard]] std::size_t size() const { return names.size(); }
};

class Course {
 public:
  // Both must outlive it. The history's operations must be final (empty caches inserted).
  Course(const History& history, const Levels& levels);

  struct Column {
    std::uint32_t event = 0;  // shown, counted from the first of the device
    std::int64_t allocated = 0;
    std::int64_t lowest = 0;
    std::int64_t reserved = 0;  // the most
    std::vector<std::int64_t> groups;
  };
  // Events [first, last), counted from the first of the device, in `count` columns of equal length; or between the
  // given bounds, which must not fall.
  [[nodiscard]] std::vector<Column> columns(const Grouping& grouping, const std::vector<std::uint32_t>& bounds) const;

  [[nodiscard]] Grouping by_category(const Attribution& attribution) const;
  // By the module or the line that asked: the eleven that hold most at the peak.
  [[nodiscard]] Grouping by_module() const;
  [[nodiscard]] Grouping by_stack() const;

  [[nodiscard]] std::uint32_t events() const { return history_.events.count; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  [[nodiscard]] std::uint32_t peak_event() const { return peak_event_; }
  // Microseconds from the first event to this one, or nothing where the recording has no times.
  [[nodiscard]] bool has_times() const;
  [[nodiscard]] std::int64_t time_of(std::uint32_t event) const;
  // The first event at or after that time.
  [[nodiscard]] std::uint32_t event_at(std::int64_t microseconds) const;
  [[nodiscard]] std::int64_t reserved_after(std::uint32_t event) const;
  // The most between two events.
  [[nodiscard]] std::int64_t most_reserved(std::uint32_t first, std::uint32_t last) const;
  // Numbers of the objects alive after an event.
  [[nodiscard]] std::vector<std::uint32_t> alive_after(std::uint32_t event) const;

  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const Levels& levels() const { return levels_; }

 private:
  static constexpr std::size_t kStride = 256;

  struct Mark {
    std::int64_t allocated = 0;  // before its first operation
    std::int64_t highest = 0;    // after any of its operations
    std::int64_t lowest = 0;
    std::uint32_t highest_op = 0;
  };
  struct Extreme {
    std::uint32_t op = 0;
    std::int64_t highest = 0;
    std::int64_t lowest = 0;
  };

  [[nodiscard]] std::int64_t change_of(const Op& op) const;
  [[nodiscard]] std::int64_t allocated_before(std::size_t op) const;
  [[nodiscard]] std::size_t first_op_from(std::uint32_t event) const;  // counted from the device's first
  [[nodiscard]] Extreme extreme(std::size_t first, std::size_t last) const;
  void scan(std::size_t first, std::size_t last, Extreme& found) const;
  void set_sums(Grouping& grouping) const;
  void group_by_stack(const std::vector<std::string>& key_of_stack, Grouping& grouping) const;
  [[nodiscard]] std::vector<std::int64_t> groups_after(const Grouping& grouping, std::size_t op,
                                                       std::int64_t allocated) const;

  const History& history_;
  const Levels& levels_;
  std::vector<Mark> marks_;
  std::int64_t peak_ = 0;
  std::uint32_t peak_event_ = 0;
};

}  // namespace plimsoll::replay
