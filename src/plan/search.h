// SPDX-License-Identifier: Apache-2.0
// The fastest configurations of a space that fit. Every point is considered: it is refused by the framework, does not
// divide, cannot fit, or is priced in memory and time. What is skipped without being priced is skipped because a
// smaller relative of it does not fit (memory never falls when the micro-batch grows). The best are then walked
// through the allocator, which has the last word on whether they fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "memory/answer.h"
#include "plan/space.h"
#include "timing/step_time.h"

namespace plimsoll::plan {

struct Priced {
  Candidate candidate;
  double seconds = 0;
  std::int64_t peak = 0;  // bytes of tensors on the worst rank, and what lies beside PyTorch
};

struct Counts {
  std::size_t considered = 0;
  std::size_t refused = 0;       // by the framework: batch or layers do not divide, a rule forbids it
  std::size_t does_not_fit = 0;  // priced, too large
  std::size_t skipped = 0;       // a smaller micro-batch of the same already did not fit
  std::size_t fits = 0;          // by the sum of its tensors
  std::size_t walked_out = 0;    // fragmentation made it too large
};

enum class Objective : std::uint8_t { kTime, kHeadroom };

struct Found {
  Candidate candidate;
  KeyValues settings;
  job::Job job;
  memory::RankAnswer worst;
  timing::StepTime time;
  bool expandable = false;  // fits only with expandable segments
};

struct Plan {
  Space space;
  Counts counts;
  std::vector<Found> best;     // ranked
  std::vector<Priced> pareto;  // less memory or less time than every other, fastest first
  std::vector<std::pair<std::string, std::size_t>> refusals;  // reason and number, most frequent first
  std::int64_t least_peak = 0;  // of what does not fit, when nothing does: the nearest miss
  Candidate nearest;
  bool interrupted = false;
};

struct SearchOptions {
  std::size_t keep = 5;
  Objective objective = Objective::kTime;
  unsigned threads = 0;  // 0: all cores
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Counts&)> progress;  // from the calling thread, about once a second
};

// `job` is complete; its knobs outside the space stay as they are.
[[nodiscard]] Plan search(const job::Job& job, const Space& space, const SearchOptions& options);

// The price of one point, or why it has none. For tests: search() must find what pricing every point finds.
[[nodiscard]] Result<Priced> price(const job::Job& job, const Space& space, const Candidate& candidate);

}  // namespace plimsoll::plan
