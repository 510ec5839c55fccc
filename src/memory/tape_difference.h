// SPDX-License-Identifier: Apache-2.0
// Two descriptions of one step compared tensor by tensor: a job's own against a capture of the real code, or two
// captures. Which tensors are alive at one's peak alone, and which requests of the steady step one of them makes alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/tape.h"

namespace plimsoll::memory {

struct TapeTensor {
  std::uint32_t id = 0;
  std::int64_t bytes = 0;                 // in blocks
  step::Name name = step::Name::kHidden;  // at the peak, or as it was made
  step::Moment made;                      // when
};

// What is alive after `event`, in the order in which it was made.
[[nodiscard]] std::vector<TapeTensor> tensors_at(const step::Tape& tape, std::uint32_t event);

struct TapeDifference {
  // Alive at one peak and without a tensor of that size at the other: the sums differ as the peaks do.
  std::vector<TapeTensor> only_a;
  std::vector<TapeTensor> only_b;
  // Requests of the steady step that the other does not make in that phase, in order. Those that it makes a little
  // earlier or later are the same ones.
  std::vector<TapeTensor> requested_by_a;
  std::vector<TapeTensor> requested_by_b;
  std::size_t same_requests = 0;
  std::int64_t least = 0;  // smaller requests were not looked at
};

struct TapeAtPeak {
  const step::Tape& tape;  // recorded, with its moments, and written out
  std::uint32_t peak = 0;  // event
};
[[nodiscard]] TapeDifference compare(const TapeAtPeak& a, const TapeAtPeak& b);

}  // namespace plimsoll::memory
