// SPDX-License-Identifier: Apache-2.0
// Walks a recorded step through the allocator simulator: peaks in allocated and reserved bytes, where
// they happen, and who is alive then.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/settings.h"
#include "step/tape.h"

namespace plimsoll::memory {

// Moments that one knob would move together. The second peak is the highest of another group, because
// lowering the first peak helps only down to it.
enum class PeakGroup : std::uint8_t { kConstruction, kForward, kLoss, kBackward, kUpdate, kEvaluation };
inline constexpr int kPeakGroups = 6;
[[nodiscard]] PeakGroup group_of(const step::Moment& moment);
[[nodiscard]] std::string_view text_of(PeakGroup group);

struct PeakPoint {
  std::int64_t allocated = 0;
  std::int64_t requested = 0;  // block-rounded sum of tensors, without unsplit rests
  std::int64_t reserved = 0;   // at that instant
  std::uint32_t event = 0;     // the allocation that reached it
  step::Moment moment;
};

struct PhasePeak {
  std::int64_t peak_allocated = 0;
  std::int64_t allocated_after = 0;
};

struct OutOfMemory {
  step::Moment moment;
  std::int64_t requested = 0;  // of the failing tensor
  step::Name name = step::Name::kHidden;
};

struct Walk {
  PeakPoint peak;
  std::array<PeakPoint, kPeakGroups> by_group{};
  std::array<PhasePeak, 10> by_phase{};  // index: step::Phase
  std::int64_t peak_reserved = 0;
  std::int64_t driver_calls = 0;
  std::optional<OutOfMemory> out_of_memory;
};

// Where an allocator stands after every event of a tape.
struct Levels {
  std::vector<std::int64_t> allocated;
  std::vector<std::int64_t> reserved;
};

// capacity is what the allocator may take from the device. With stop_at_capacity the walk ends at the
// first request that cannot be served; without it memory is endless. A memory fraction is of the whole
// device (facts pytorch-allocator.md 6): device_total, or the capacity where it is 0. `levels` is filled where given,
// up to the event at which the walk ends. A tape without moments has one group and one phase.
[[nodiscard]] Walk walk(const step::Tape& tape, const allocator::Settings& settings, std::int64_t capacity,
                        bool stop_at_capacity, std::int64_t device_total = 0, Levels* levels = nullptr);

struct Alive {
  step::Name name;
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

// What is alive after `event`, largest first.
[[nodiscard]] std::vector<Alive> alive_at(const step::Tape& tape, std::uint32_t event);

}  // namespace plimsoll::memory
