// SPDX-License-Identifier: Apache-2.0
// A generator of uniform numbers whose sequence is the same on every machine and in every build: splitmix64, a
// counter passed through a mixing function.
#pragma once

#include <cstdint>

namespace plimsoll::rl {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31U);
  }
  // In [0, 1).
  [[nodiscard]] double uniform() { return static_cast<double>(bits() >> 11U) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace plimsoll::rl
