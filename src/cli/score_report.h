// SPDX-License-Identifier: Apache-2.0
// The answer of score for people: the error of the predictions per file, per group, and the largest misses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "answer/score.h"
#include "cli/console.h"

namespace plimsoll::cli {

// One line per file and quantity, then why records were skipped.
[[nodiscard]] std::string score_table(const std::vector<answer::ScoredFile>& files, const Console& console);

// One line per file, quantity and value of the group `key`.
[[nodiscard]] std::string group_table(const std::vector<answer::ScoredFile>& files, const std::string& key,
                                      const Console& console);

// The `count` largest misses of all files, each with the memory table of its prediction.
[[nodiscard]] std::string worst_report(const std::vector<answer::ScoredFile>& files, std::size_t count,
                                       const Console& console);

}  // namespace plimsoll::cli
