// SPDX-License-Identifier: Apache-2.0
// Ranks that hold the same, under one label; those that stand out among their peers have one of their own.
#pragma once

#include <string>
#include <vector>

#include "live/compare.h"

namespace plimsoll::live {

struct RankGroup {
  std::string label;  // "0", "0-7", "8-15, 24 (stage 1)"
  std::vector<std::size_t> rows;
  std::size_t fullest = 0;  // row with the most reserved
  bool is_outlier = false;
};

// Few rows stay as they are. Many are grouped by pipeline rank, and within it by what is allocated, alike to `same`.
[[nodiscard]] std::vector<RankGroup> group_rows(const std::vector<RankComparison>& rows, std::size_t most_single = 8,
                                                double same = 0.02);

// "0-7, 9, 12-15", at most `most` pieces, then "and N more".
[[nodiscard]] std::string ranges(std::vector<std::int64_t> ranks, std::size_t most = 6);

}  // namespace plimsoll::live
