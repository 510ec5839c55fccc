// SPDX-License-Identifier: Apache-2.0
// The answer of score: the error of the predictions per file, per group, and the largest misses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/console.h"
#include "truth/score.h"

namespace plimsoll::cli {

struct ScoredFile {
  truth::RecordFile records;
  truth::FileScore score;
};

// One line per file and quantity, then why records were skipped.
[[nodiscard]] std::string score_table(const std::vector<ScoredFile>& files, const Console& console);

// One line per file, quantity and value of the group `key`.
[[nodiscard]] std::string group_table(const std::vector<ScoredFile>& files, const std::string& key,
                                      const Console& console);

// The `count` largest misses of all files, each with the memory table of its prediction.
[[nodiscard]] std::string worst_report(const std::vector<ScoredFile>& files, std::size_t count, const Console& console);

// `by` is empty where no group was asked for.
[[nodiscard]] std::string score_json(const std::vector<ScoredFile>& files, const std::string& by);

// Names of what can be measured.
[[nodiscard]] std::vector<std::string> quantities();

// Names of the groups that any record has.
[[nodiscard]] std::vector<std::string> group_keys(const std::vector<ScoredFile>& files);

}  // namespace plimsoll::cli
