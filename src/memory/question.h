// SPDX-License-Identifier: Apache-2.0
// One job on its way to its answer, in steps that whoever has several jobs shares among the cores. Every pipeline rank
// is walked: fragmentation is not bounded by what a rank's tensors need, so none is left out because another looks
// fuller; only a caller that wants no more than the verdict stops at the first rank that does not fit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "job/pipeline_layout.h"
#include "memory/answer.h"

namespace plimsoll::memory {

struct WalkedRank {
  RankAnswer answer;
  std::vector<std::string> warnings;
};

class Question {
 public:
  // The job outlives it.
  Question(const job::Job& job, const AskedRanks& asked) : job_(job), asked_(asked) {}

  // First: which ranks are to be walked.
  void prepare();
  [[nodiscard]] std::size_t ranks() const { return refused_ ? 0 : fullest_first_.size(); }
  // Then each of them, in any order and at once.
  void walk(std::size_t i);
  // Last, once.
  [[nodiscard]] Result<Answer> answer();

 private:
  [[nodiscard]] Status lay_out();

  const job::Job& job_;
  AskedRanks asked_;
  std::optional<Error> refused_;
  std::optional<job::PipelineLayout> layout_;
  std::vector<std::int64_t> peak_by_stage_;
  std::vector<std::int64_t> fullest_first_;
  std::vector<std::optional<Result<WalkedRank>>> walked_;  // of fullest_first_
  std::unique_ptr<std::atomic<bool>> is_decided_ = std::make_unique<std::atomic<bool>>(false);
};

}  // namespace plimsoll::memory
