// SPDX-License-Identifier: Apache-2.0
// Measured beside predicted, rank by rank, and what the difference says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/prediction.h"
#include "live/rank_file.h"
#include "live/sample.h"

namespace plimsoll::live {

struct Quantity {
  std::optional<double> measured;  // bytes or seconds
  std::optional<double> predicted;
  double half_width = 0;  // of the prediction's interval

  [[nodiscard]] std::optional<double> difference() const;  // measured - predicted
  [[nodiscard]] bool is_outside_interval() const;
};

struct RankComparison {
  std::int64_t rank = 0;
  std::string host;
  std::optional<std::int64_t> pp_rank;
  Quantity allocated;
  Quantity reserved;
  Quantity outside;           // on the device, beside torch
  Quantity resident;          // on the host, of this process
  Quantity seconds;           // of a step
  std::int64_t total = 0;     // of the device
  std::int64_t headroom = 0;  // total - reserved - outside; 0 where not measured
  double fragmentation = 0;   // share of the reserved peak that was not allocated at its own peak
  bool lasting = false;       // ran at least two steps, so that its peak is the one that stays
};

// `most` gives what the device held before the run. A process that used no device has no row.
[[nodiscard]] std::vector<RankComparison> compare(const std::vector<RankRun>& ranks, const Prediction* prediction,
                                                  const Most& most);

// Sentences: what differs by more than its interval, and what that usually is.
[[nodiscard]] std::vector<std::string> differences(const std::vector<RankComparison>& rows,
                                                   const std::vector<RankRun>& ranks, const Prediction* prediction);

// Ranks whose row stands out among those of the same pipeline rank: more than `share` above their median.
[[nodiscard]] std::vector<std::int64_t> outliers(const std::vector<RankComparison>& rows, double share = 0.05);

}  // namespace plimsoll::live
