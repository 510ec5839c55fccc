// SPDX-License-Identifier: Apache-2.0
// Questions around a plan that each ask many configurations whether they fit: the longest sequence, the fewest GPUs.
// Bounds are shared between the steps, so that an answer costs about as much as one search.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "plan/question.h"

namespace plimsoll::plan {

using Tell = std::function<void(const std::string&)>;  // what is tried now

struct Longest {
  std::int64_t tokens = 0;  // 0: nothing fits
  std::int64_t step = 0;    // the next length that was tried, or would have been, is this much longer
  bool is_endless = false;  // the most that is asked for
};
// The longest sequence for which something fits, to within a hundredth. A split that does not hold a length holds no
// longer one, so each is asked for one step beyond what others hold, and only one that holds it is taken further.
[[nodiscard]] Longest longest_sequence(const Question& question, const SearchOptions& options, const Tell& tell = {});

// The question with another length, or on other GPUs.
[[nodiscard]] Question with_length(const Question& question, std::int64_t tokens);
[[nodiscard]] Question with_gpus(const Question& question, std::int64_t gpus);

// The fewest GPUs on which something fits.
struct Fewest {
  std::int64_t gpus = 0;
  std::int64_t step = 1;  // counts in between were not tried
};
// Nothing: none from `least` to `most`, or an interruption; `without` is the largest number on which nothing fits for
// certain.
[[nodiscard]] std::optional<Fewest> fewest_gpus(const Question& question, const SearchOptions& options,
                                                std::int64_t least, std::int64_t most, std::int64_t* without = nullptr,
                                                const Tell& tell = {});

}  // namespace plimsoll::plan
