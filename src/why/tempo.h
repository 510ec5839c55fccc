// SPDX-License-Identifier: Apache-2.0
// The shape of a run's speed: its steady step, how it began, where it changed, what comes round again, how it drifts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "why/pace.h"

namespace plimsoll::why {

struct TempoChange {
  std::int64_t step = 0;  // the first that is different
  double before = 0;      // median seconds
  double after = 0;
  std::int64_t line = 0;
};

struct Tempo {
  std::size_t steps = 0;  // points that it rests on
  double steady = 0;      // median seconds of a step after the start
  double low = 0;         // tenth and ninetieth percentile of those
  double high = 0;
  double warm_up = 0;  // seconds that the first steps took more than steady ones
  std::size_t warm_up_steps = 0;
  std::optional<TempoChange> change;
  double lost_to_spikes = 0;  // share of all time that steps above one and a half of the median take more than it
  std::size_t spikes = 0;
  std::optional<std::int64_t> period;  // steps between spikes, where they come round again
  double drift = 0;                    // share of the steady step per hundred steps, where it is steady enough to say
};

// Nothing where fewer than five points have seconds.
[[nodiscard]] std::optional<Tempo> tempo_of(const std::vector<PacePoint>& points);

}  // namespace plimsoll::why
