// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run that failed came to their ends: which one failed first, and which vanished without a word.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/rank_file.h"

namespace plimsoll::live {

// Of the last start where the launcher started all ranks again (torchrun --max-restarts); the others go to `earlier`.
[[nodiscard]] std::vector<RankRun> take_last_start(std::vector<RankRun> all, std::vector<RankRun>& earlier);

// Whether the run is known to have ended: a rank without an end may run still.
enum class Over : std::uint8_t { kSurely, kPerhaps };

// In sentences; none where one rank says all that there is to say.
[[nodiscard]] std::vector<std::string> fates(const std::vector<RankRun>& ranks, Over over = Over::kSurely);

// What ended the starts before the last one, in a sentence; "" where there was one only.
[[nodiscard]] std::string earlier_starts(const std::vector<RankRun>& earlier);

}  // namespace plimsoll::live
