// SPDX-License-Identifier: Apache-2.0
// The fastest configurations of a space that fit. Every point is considered: the framework refuses it, it cannot fit,
// it cannot be among the best, or it is priced in memory and time. What is passed over is passed over for a reason that
// is always right: its state alone is too large, a smaller micro-batch of the same did not fit, or something faster
// needs less memory than its state. The fastest by the closed form of the pipeline are simulated, and walked through
// the allocator, which has the last word on whether they fit.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lever/world.h"
#include "memory/answer.h"
#include "plan/evaluator.h"
#include "plan/space.h"
#include "timing/step_time.h"

namespace plimsoll::plan {

struct Counts {
  std::size_t considered = 0;
  std::size_t refused = 0;       // by the framework: batch or layers do not divide, a rule forbids it
  std::size_t does_not_fit = 0;  // priced, or its state alone
  std::size_t skipped = 0;       // a smaller micro-batch of the same already did not fit
  std::size_t slower = 0;        // what was found is faster and needs less
  std::size_t fits = 0;          // by the sum of its tensors
  std::size_t no_host = 0;       // the hosts cannot hold what is moved to them
  std::size_t walked_out = 0;    // fragmentation made it too large

  void add(const Counts& other);
};

enum class Objective : std::uint8_t { kTime, kHeadroom };

struct Found {
  Candidate candidate;
  KeyValues settings;
  job::Job job;
  memory::RankAnswer worst;
  timing::StepTime time;
  std::int64_t beside = 0;            // bytes of the worst rank on top of its step (Beside)
  bool expandable = false;            // with expandable segments, because it fits only or more surely so
  std::vector<std::string> levers;    // pulled on top of the candidate (polish.h), by their labels
  std::vector<std::string> warnings;  // what of it is not in the numbers

  // Also at the upper end of its interval.
  [[nodiscard]] bool surely_fits() const { return worst.fits && worst.high + beside <= worst.capacity; }
};

struct Refusal {
  std::string reason;  // one of them, with its numbers
  std::size_t count = 0;
};

struct Plan {
  Space space;
  KeyValues assumed;  // by whoever asked, where only a model was named; every row has them
  Objective objective = Objective::kTime;
  Counts counts;
  // Ranked: what fits with the upper end of its interval. A row that is neither faster nor leaner than one of the same
  // sizes before it is left out. Where nothing fits so surely, what fits by the prediction.
  std::vector<Found> best;
  // Faster than the first of them, and by the prediction they fit; by less than its error.
  std::vector<Found> tight;
  std::vector<Priced> closed;     // the best by the closed form, ranked
  std::vector<Priced> seen;       // what fits by its tensors, up to SearchOptions::remember, in no order
  std::vector<Priced> pareto;     // less memory or less time than every other, fastest first
  std::vector<Refusal> refusals;  // most frequent first
  std::int64_t least_peak = 0;    // when nothing fits: what the leanest would need
  Candidate nearest;              // that one
  bool interrupted = false;
};

struct SearchOptions {
  std::size_t keep = 5;
  std::size_t simulated = 256;  // how many of the best by the closed form are kept for simulation, at least
  std::size_t remember = 0;     // of all points that fit, how many Plan::seen has, at most
  Objective objective = Objective::kTime;
  unsigned threads = 0;  // 0: all cores
  // Splits are dealt to lanes that keep their own best, so that what is passed over, and with it every count, is the
  // same for any number of threads.
  std::size_t lanes = 16;
  const lever::World* world = nullptr;  // none: the built-in one
  const Beside* beside = nullptr;       // none: the step is all that a GPU holds
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Counts&)> progress;  // from the calling thread, about once a second
};

// The point as it would be launched, with expandable segments where those make it fit, or fit surely; nothing where the
// allocator cannot hold it.
[[nodiscard]] std::optional<Found> walked(Evaluator& evaluator, const Space& space, const Beside* beside,
                                          const Candidate& candidate);

// Whether search() would find anything: ends with the first point that fits when it is walked, and prices no time.
[[nodiscard]] bool anything_fits(const job::Job& job, const Space& space, const SearchOptions& options);

// `job` is complete; its knobs outside the space stay as they are.
[[nodiscard]] Plan search(const job::Job& job, const Space& space, const SearchOptions& options);

}  // namespace plimsoll::plan
