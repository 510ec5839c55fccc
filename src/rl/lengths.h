// SPDX-License-Identifier: Apache-2.0
// The distribution of a length: lognormal cut at a maximum, or a histogram. Its moments are exact, its samples come
// from a table of quantiles, so that drawing is cheap and the same everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "rl/random.h"
#include "rl/run.h"

namespace plimsoll::rl {

class Distribution {
 public:
  // Of lengths whose mean is known: the cut lognormal has that mean, its cv is that before the cut.
  explicit Distribution(const Lengths& lengths);

  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double mean_square() const { return mean_square_; }
  [[nodiscard]] double deviation() const;
  [[nodiscard]] bool is_constant() const { return deviation() == 0; }
  // The length that a share q of samples does not exceed.
  [[nodiscard]] double quantile(double q) const;
  // Of the longest of n samples.
  [[nodiscard]] double expected_maximum(double n) const;
  // Share of samples that are at most this long.
  [[nodiscard]] double cumulative(double length) const;
  // Share of samples that the maximum cuts.
  [[nodiscard]] double cut_share() const { return cut_share_; }
  // At least one token.
  [[nodiscard]] std::int64_t sample(Random& random) const;

 private:
  double mean_ = 0;
  double mean_square_ = 0;
  double cut_share_ = 0;
  double location_ = 0;  // of the logarithm
  double scale_ = 0;     // of the logarithm; 0: constant or histogram
  double maximum_ = 0;
  std::vector<double> quantiles_;                 // at (i + 0.5) / size
  std::vector<std::pair<double, double>> steps_;  // histogram: length, share up to and with it
};

}  // namespace plimsoll::rl
