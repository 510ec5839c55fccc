// SPDX-License-Identifier: Apache-2.0
// Samples packed into bins of the trainer: first-fit-decreasing, bins padded to a multiple, their number to a
// multiple of the data-parallel ranks with copies of the first (facts rl-and-inference.md 2).
#pragma once

#include <cstdint>
#include <vector>

#include "rl/lengths.h"
#include "rl/run.h"

namespace plimsoll::rl {

struct Packed {
  std::int64_t samples = 0;
  std::int64_t truncated = 0;  // samples longer than a bin
  double lost_tokens = 0;      // that truncation cuts away
  double tokens = 0;           // of the samples, after truncation
  std::int64_t bins = 0;       // before the ranks' multiple
  std::int64_t dealt = 0;      // with the copies: ranks * bins per rank
  std::int64_t per_rank = 0;   // bins that every rank works through
  double padded_tokens = 0;    // of the bins before copies, after padding
  double square_tokens = 0;    // sum of squared sample lengths: what attention costs

  // Tokens of samples over tokens that are computed.
  [[nodiscard]] double efficiency(std::int64_t ranks) const;
};

// Bins of these lengths, largest first into the first bin that has room.
[[nodiscard]] Packed pack(std::vector<std::int64_t> lengths, const Packing& packing, std::int64_t pad,
                          std::int64_t ranks);

// The packing of a batch of a run, averaged over a few drawn batches. `pad` is the multiple of a bin.
[[nodiscard]] Packed typical_packing(const Run& run, std::int64_t pad, std::int64_t ranks);

}  // namespace plimsoll::rl
