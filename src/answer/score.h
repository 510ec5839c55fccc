// SPDX-License-Identifier: Apache-2.0
// How good are the predictions, measured against recorded runs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "answer/input.h"
#include "answer/progress.h"
#include "truth/score.h"

namespace plimsoll::answer {

struct ScoredFile {
  truth::RecordFile records;
  truth::FileScore score;
};

struct Score {
  std::vector<ScoredFile> files;
  std::string by;                    // the group whose errors are shown apart; "" for none
  std::vector<std::string> learned;  // what plimsoll learn changed in the predictions, in words

  [[nodiscard]] std::size_t records() const;
  [[nodiscard]] std::size_t scored() const;
};

struct ScoreQuestion {
  std::vector<std::string> paths;
  std::vector<std::string> quantities;  // all where empty
  std::string by;
};

// Names of what can be measured.
[[nodiscard]] std::vector<std::string> quantities();

[[nodiscard]] Result<Score> score(const ScoreQuestion& question, const lever::World& world,
                                  const Progress& progress = {});
[[nodiscard]] std::string to_json(const Score& score);

// Values of a group in one file, in order.
[[nodiscard]] std::set<std::string> group_values(const ScoredFile& file, const std::string& key);

}  // namespace plimsoll::answer
