// SPDX-License-Identifier: Apache-2.0
// What many ranks' logs say together: who failed first, who failed alike, who only echoes it, and who is unlike the
// others in memory or in steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "why/diagnosis.h"
#include "why/findings.h"

namespace plimsoll::why {

struct UnlikeRank {
  int rank = 0;
  std::string says;  // "held 71.0 GiB at most, the others 52.0 GiB to 54.0 GiB"
};

struct RankStory {
  int heard = 0;             // ranks that wrote anything with their number
  std::optional<int> first;  // to fail
  std::vector<int> alike;    // failed as the first did, itself included
  std::vector<int> echoes;   // report only that another was lost
  std::vector<UnlikeRank> unlike;

  [[nodiscard]] bool is_told() const { return heard > 1; }
};

[[nodiscard]] RankStory ranks_of(const Findings& findings, const Diagnosis& diagnosis);

// "0", "0 and 3", "0 to 7, 12 and 40": at most `most` runs of numbers, then how many more.
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks, std::size_t most = 6);

}  // namespace plimsoll::why
