// SPDX-License-Identifier: Apache-2.0
// The memory of one rank over its step: what is allocated, reserved and alive after every event of its tape, and
// columns of it for a picture. A column shows the instant of its range at which most is allocated, so that no peak is
// lost however many events a column stands for.
// Invariant: the categories of a column sum to what its tensors take; `rounding` is what the allocator adds to them,
// and both together are `allocated`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "memory/walk.h"
#include "step/tape.h"

namespace plimsoll::memory {

struct Course {
  std::int64_t pp_rank = 0;
  step::Tape tape{true};
  Levels levels;
  Walk walk;                        // without a limit: what the step would need
  std::optional<PeakPoint> second;  // the highest peak of another kind of moment
  std::int64_t capacity = 0;        // of the device
  std::int64_t outside = 0;         // beside torch

  [[nodiscard]] std::uint32_t events() const { return static_cast<std::uint32_t>(levels.allocated.size()); }
  [[nodiscard]] const step::Moment& moment_at(std::uint32_t event) const;
};

// An error where the step is too large to be walked (base/budget.h).
[[nodiscard]] Result<Course> make_course(const job::Job& job, std::int64_t pp_rank);

// Events first to last - 1.
struct EventRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

struct Column {
  std::uint32_t event = 0;  // the instant that is shown
  std::int64_t allocated = 0;
  std::int64_t lowest = 0;    // allocated, in the range
  std::int64_t reserved = 0;  // the most in the range
  std::int64_t rounding = 0;
  std::array<std::int64_t, step::kCategories> categories{};
};

// One column per range; an empty range stands for the instant before it. Ranges may lie in any order.
[[nodiscard]] std::vector<Column> columns_of(const Course& course, std::span<const EventRange> ranges);

// `count` ranges of equal length over [first, last).
[[nodiscard]] std::vector<EventRange> even_ranges(std::uint32_t first, std::uint32_t last, std::size_t count);

// A pass, an update or another stretch of the step: the events from its mark to the next of another kind.
struct Stretch {
  step::Phase phase = step::Phase::kModel;
  std::int32_t micro_batch = -1;
  std::int16_t chunk = 0;
  EventRange events;
};
[[nodiscard]] std::vector<Stretch> stretches_of(const Course& course);

}  // namespace plimsoll::memory
