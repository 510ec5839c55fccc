// SPDX-License-Identifier: Apache-2.0
// An existing job made to fit in the steps that cost least: of all sets of rungs that fit, one whose step is the
// shortest, then one that reaches least far into the launch. Levers that change what is learned (sequence length,
// precision, optimizer, adapters) are priced on top of what was climbed, and taken only where that is asked for.
// Invariant: no single rung and no two rungs that fit are faster than the answer by more than twice kSameTime.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lever/priced.h"

namespace plimsoll::plan {

using lever::PricedChange;

// Share of the job's step below which a prediction cannot tell two times apart.
constexpr double kSameTime = 0.005;

// These settings, with `more` instead of those of the same keys.
[[nodiscard]] job::Settings merged(job::Settings settings, const job::Settings& more);

struct LadderStep {
  PricedChange taken;
  std::vector<PricedChange> passed_over;  // cheapest first
};

struct Ladder {
  memory::RankAnswer before;
  bool fits_already = false;
  bool fits = false;  // at the end
  // Steps in the order taken. Where nothing fits: those that save most.
  std::vector<LadderStep> steps;
  // Levers that change what is learned, each on top of the steps taken; against the job as it was.
  std::vector<PricedChange> science;
  job::Settings settings;  // all changes that were taken
  memory::RankAnswer after;
  double slower = 0;           // share of time more per token, of all steps together
  std::int64_t tried = 0;      // sets of rungs whose memory was computed
  std::string search_command;  // plimsoll plan for the same model and batch
  bool is_cheapest = true;     // false: the search ended at its bound, and a cheaper set may exist
};

struct ClimbOptions {
  bool changes_numerics = false;  // also levers after which other numbers are computed
};
[[nodiscard]] Result<Ladder> climb(const job::Request& request, const lever::World& world,
                                   const ClimbOptions& options = {});

}  // namespace plimsoll::plan
