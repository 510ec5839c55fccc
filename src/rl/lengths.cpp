// SPDX-License-Identifier: Apache-2.0
#include "rl/lengths.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll::rl {

namespace {

constexpr std::size_t kQuantiles = 1024;

double normal_cumulative(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

struct Lognormal {
  double location;
  double scale;
  double maximum;

  // E[min(X, maximum)^k]
  [[nodiscard]] double moment(int k) const {
    const double whole = std::exp(k * location + 0.5 * k * k * scale * scale);
    if (!std::isfinite(maximum)) return whole;
    const double z = (std::log(maximum) - location) / scale;
    return whole * normal_cumulative(z - k * scale) + std::pow(maximum, k) * normal_cumulative(-z);
  }
};

// The location for which the cut lognormal has this mean; its mean rises with it, from 0 to the maximum.
double location_for(double mean, double scale, double maximum) {
  const double uncut = std::log(mean) - 0.5 * scale * scale;
  if (!std::isfinite(maximum)) return uncut;
  double low = uncut;
  double high = std::log(maximum) + 40 * scale + 1;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (Lognormal{middle, scale, maximum}.moment(1) < mean ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

Distribution::Distribution(const Lengths& lengths) {
  maximum_ = lengths.maximum > 0 ? static_cast<double>(lengths.maximum) : std::numeric_limits<double>::infinity();
  if (!lengths.counts.empty()) {
    double total = 0;
    for (const auto& [length, count] : lengths.counts) total += static_cast<double>(count);
    double seen = 0;
    for (const auto& [length, count] : lengths.counts) {
      const double cut = std::min(static_cast<double>(length), maximum_);
      const double share = static_cast<double>(count) / total;
      mean_ += share * cut;
      mean_square_ += share * cut * cut;
      if (static_cast<double>(length) > maximum_) cut_share_ += share;
      seen += static_cast<double>(count);
      steps_.emplace_back(cut, seen / total);
    }
    return;
  }
  mean_ = std::min(lengths.mean, maximum_);
  mean_square_ = mean_ * mean_;
  if (!(lengths.cv > 0) || mean_ >= maximum_) return;
  scale_ = std::sqrt(std::log1p(lengths.cv * lengths.cv));
  location_ = location_for(mean_, scale_, maximum_);
  mean_square_ = Lognormal{location_, scale_, maximum_}.moment(2);
  if (std::isfinite(maximum_)) cut_share_ = normal_cumulative((location_ - std::log(maximum_)) / scale_);
  quantiles_.reserve(kQuantiles);
  for (std::size_t i = 0; i < kQuantiles; ++i)
    quantiles_.push_back(quantile((static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles)));
}

double Distribution::deviation() const { return std::sqrt(std::max(0.0, mean_square_ - mean_ * mean_)); }

double Distribution::cumulative(double length) const {
  if (length >= maximum_) return 1;
  if (!steps_.empty()) {
    const auto above = std::upper_bound(steps_.begin(), steps_.end(), length,
                                        [](double value, const auto& step) { return value < step.first; });
    return above == steps_.begin() ? 0 : std::prev(above)->second;
  }
  if (scale_ == 0) return length >= mean_ ? 1 : 0;
  return length <= 0 ? 0 : normal_cumulative((std::log(length) - location_) / scale_);
}

double Distribution::quantile(double q) const {
  if (!steps_.empty()) {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), q,
                                     [](const auto& step, double value) { return step.second < value; });
    return at == steps_.end() ? steps_.back().first : at->first;
  }
  if (scale_ == 0) return mean_;
  if (1 - q <= cut_share_) return maximum_;
  double low = -9;
  double high = 9;
  for (int i = 0; i < 50; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cumulative(middle) < q ? low : high) = middle;
  }
  return std::min(maximum_, std::exp(location_ + scale_ * 0.5 * (low + high)));
}

double Distribution::expected_maximum(double n) const {
  if (scale_ == 0 && steps_.empty()) return mean_;
  if (n <= 1) return mean_;
  // Integral of 1 - F^n over the lengths, with points that lie close where F rises.
  const double top = std::isfinite(maximum_) ? maximum_ : quantile(1 - 1e-9 / n);
  constexpr int kPoints = 2000;
  double sum = 0;
  double before = 0;
  for (int i = 1; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    const double length = top * share * share;
    sum += (length - before) * (1 - std::pow(cumulative(0.5 * (length + before)), n));
    before = length;
  }
  return sum;
}

std::int64_t Distribution::sample(Random& random) const {
  const double u = random.uniform();
  double length = mean_;
  if (!steps_.empty()) {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), u,
                                     [](const auto& step, double value) { return step.second < value; });
    length = at == steps_.end() ? steps_.back().first : at->first;
  } else if (scale_ > 0) {
    // A half-step beside the table's ends has no neighbour to mix with; there the quantile itself is computed.
    const double place = u * static_cast<double>(kQuantiles) - 0.5;
    if (place <= 0 || place >= static_cast<double>(kQuantiles - 1)) {
      length = quantile(u);
    } else {
      const auto below = static_cast<std::size_t>(place);
      const double share = place - static_cast<double>(below);
      length = quantiles_[below] * (1 - share) + quantiles_[below + 1] * share;
    }
  }
  return std::max<std::int64_t>(1, std::llround(length));
}

}  // namespace plimsoll::rl
