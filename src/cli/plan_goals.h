// SPDX-License-Identifier: Apache-2.0
// Questions around a plan: how few GPUs would do, how much fits, which number of GPUs trains a number of tokens for the
// fewest GPU-hours. Each asks several plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/plan_question.h"
#include "cli/verb.h"
#include "plan/goals.h"

namespace plimsoll::cli {

// The fewest GPUs on which something fits, and the best there.
struct FewestPlan {
  plan::Fewest fewest;
  plan::Plan plan;
};
// Nothing: none from `least` to `most`, or an interruption; `without` is the largest number on which nothing fits for
// certain.
[[nodiscard]] std::optional<FewestPlan> plan_on_fewest(const Question& question, const plan::SearchOptions& options,
                                                       std::int64_t least, std::int64_t most,
                                                       std::int64_t* without = nullptr);

[[nodiscard]] Result<ExitCode> answer_fewest_gpus(const Question& question, const plan::SearchOptions& options,
                                                  const Arguments& arguments, const Console& console);
[[nodiscard]] Result<ExitCode> answer_largest(const Question& question, const std::string& key,
                                              const plan::SearchOptions& options, const Arguments& arguments,
                                              const Console& console);
[[nodiscard]] Result<ExitCode> answer_gpu_hours(const Question& question, const plan::SearchOptions& options,
                                                const Arguments& arguments, const Console& console);

}  // namespace plimsoll::cli
