// SPDX-License-Identifier: Apache-2.0
// The prediction for a job against the figures of its log, rank by rank, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/known_job.h"
#include "why/diagnosis.h"
#include "why/findings.h"

namespace plimsoll::answer {

struct RankFigures {
  std::optional<int> rank;     // absent: the log does not number it
  std::int64_t stage = 0;      // of the pipeline
  std::int64_t predicted = 0;  // tensors at the peak of that stage, bytes
  std::int64_t spread = 0;     // half-width of the prediction
  std::int64_t capacity = 0;   // of the device
  std::int64_t measured = 0;   // tensors: the most that a line shows
  bool at_failure = false;     // the message's own: what was alive and what was asked for on top
  std::string says;            // one clause
};

// For every rank whose tensors the log shows; those that failed first.
[[nodiscard]] std::vector<RankFigures> reconcile(const KnownJob& known, const why::Findings& findings);

// At most a few sentences: the ranks that disagree one by one, those that agree together.
[[nodiscard]] std::vector<std::string> sentences_of(const std::vector<RankFigures>& figures);

}  // namespace plimsoll::answer
