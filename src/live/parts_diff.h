// SPDX-License-Identifier: Apache-2.0
// Two folders of ranks, rank by rank: what each holds in the second beside the first.
#pragma once

#include <string>
#include <vector>

#include "answer/diff.h"
#include "live/parts.h"

namespace plimsoll::live {

struct RanksDiff {
  std::vector<RankComparison> rows;   // measured: in the second; predicted: in the first
  std::vector<std::int64_t> alone;    // ranks that only one folder has, or can be read in one only
  std::vector<std::string> not_read;  // "rank-3.jsonl: why"

  // The rank that grew most stays within the limit.
  [[nodiscard]] bool within(const answer::GrowthLimit& limit) const;
};

// An error where no rank can be compared.
[[nodiscard]] Result<RanksDiff> compare_parts(const Part& before, const Part& after);
[[nodiscard]] std::string to_json(const RanksDiff& diff, bool within);

}  // namespace plimsoll::live
