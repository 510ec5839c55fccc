// SPDX-License-Identifier: Apache-2.0
// Whether a run's memory grows from step to step, and when that ends it.
#pragma once

#include <cstdint>
#include <optional>

#include "live/rank_file.h"

namespace plimsoll::live {

struct Trend {
  bool rising = false;
  std::int64_t bytes_per_step = 0;
  double bytes_per_second = 0;
  std::optional<double> seconds_left;  // until the device is full at this pace
};

// Of what is allocated after each step, from the third on: the first two create what lasts. Rising means that the later
// half lies above the earlier one by more than noise, and that the last reading is the highest but for little.
[[nodiscard]] Trend trend_of(const RankRun& rank);

}  // namespace plimsoll::live
