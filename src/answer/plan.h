// SPDX-License-Identifier: Apache-2.0
// The fastest configuration that fits, and the questions around it: how few GPUs would do, how much fits, which number
// of GPUs trains a number of tokens for the fewest GPU-hours. The ladder climbs from one job instead.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/plan_question.h"
#include "answer/progress.h"
#include "emit/emit.h"
#include "plan/goals.h"
#include "plan/ladder.h"
#include "plan/search.h"

namespace plimsoll::answer {

// Configurations whose times are within two percent are called equal: which share of their intervals two predictions
// have in common says little when both come from one model.
inline constexpr double kTie = 0.02;
[[nodiscard]] bool is_near_tie(const plan::Plan& plan, const plan::Found& other);

[[nodiscard]] std::string to_json(const plan::Plan& plan);
[[nodiscard]] std::string to_json(const plan::Ladder& ladder);

// "TP 4, PP 4, VPP 5, micro-batch 1, recompute mlp".
[[nodiscard]] std::string shown(const plan::Plan& plan, const plan::Candidate& candidate);
// The same with what was pulled on top of it.
[[nodiscard]] std::string shown(const plan::Plan& plan, const plan::Found& found);
// "llama3-70b, megatron-bridge, bf16, 32 x h100-sxm-80gb, 32 sequences of 4,096 tokens a step"
[[nodiscard]] std::string question_line(const job::Job& job);
// What is not in the numbers of the rows shown, each once.
[[nodiscard]] std::vector<std::string> warnings_of(const plan::Plan& plan);
// Why the keys that were chosen have their values, for the files that are written.
[[nodiscard]] std::vector<emit::Reason> reasons_of(const plan::Plan& plan, const plan::Found& found);
[[nodiscard]] std::vector<emit::Reason> reasons_of(const plan::Ladder& ladder);

// The nearest thing that would fit where nothing does: another framework on the same GPUs, or more of them.
struct WouldFit {
  std::string with;           // "--framework fsdp2", "on 64 GPUs"
  std::string configuration;  // its best
};
[[nodiscard]] std::optional<WouldFit> what_would_fit(const Question& question, const plan::SearchOptions& options);

// The fewest GPUs on which something fits, and the best there.
struct FewestGpus {
  std::int64_t tried_to = 0;           // the most GPUs asked for
  std::int64_t nothing_fits_on = 0;    // the largest number on which nothing fits for certain
  std::optional<plan::Fewest> fewest;  // nothing: none does, or an interruption
  std::optional<plan::Plan> plan;      // on the fewest; where none does, what the most lacks
  bool interrupted = false;
};
[[nodiscard]] Result<FewestGpus> fewest_gpus(const Question& question, const plan::SearchOptions& options,
                                             const Progress& progress = {});
[[nodiscard]] std::string to_json(const FewestGpus& answer);

// The largest sequence length or micro-batch that fits, and the best with it.
struct LargestValue {
  std::string key;
  plan::Longest longest;           // tokens 0: nothing fits
  std::optional<plan::Plan> plan;  // nothing where nothing fits or the search was interrupted
  bool interrupted = false;
  bool decided = false;  // what fits is known, though its plan may not be finished
};
[[nodiscard]] Result<LargestValue> largest_value(const Question& question, const std::string& key,
                                                 const plan::SearchOptions& options, const Progress& progress = {});
[[nodiscard]] std::string to_json(const LargestValue& answer);

// GPU-hours of a number of tokens on 1, 2, 4, ... GPUs, fewest first.
struct GpuHours {
  struct Row {
    std::int64_t gpus;
    plan::Plan plan;
    double gpu_hours;
    double days;
  };
  std::string asked;  // "15T"
  double tokens = 0;
  std::int64_t most = 0;  // GPUs
  std::vector<Row> rows;
  bool interrupted = false;
};
[[nodiscard]] Result<GpuHours> gpu_hours(const Question& question, const std::string& tokens,
                                         const plan::SearchOptions& options, const Progress& progress = {});
[[nodiscard]] std::string to_json(const GpuHours& answer);

}  // namespace plimsoll::answer
