// SPDX-License-Identifier: Apache-2.0
#include "why/tempo.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace plimsoll::why {

namespace {

constexpr std::size_t kFewest = 5;

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

std::vector<double> seconds_of(const std::vector<PacePoint>& points, std::size_t first, std::size_t last) {
  std::vector<double> seconds;
  for (std::size_t i = first; i < last; ++i) seconds.push_back(points[i].seconds);
  return seconds;
}

// Points at the start that are slower than what follows: compilation, caches, the first batches. At most a quarter.
std::size_t warm_up_points(const std::vector<PacePoint>& points) {
  const double later = median(seconds_of(points, points.size() / 2, points.size()));
  std::size_t count = 0;
  while (count < points.size() / 4 && points[count].seconds > 1.2 * later) ++count;
  return count;
}

// The split whose sides differ most, where both are steady beside that difference and long enough to be meant.
std::optional<TempoChange> find_change(const std::vector<PacePoint>& points) {
  constexpr std::size_t kSide = 5;
  constexpr std::size_t kMostTried = 200;
  if (points.size() < 2 * kSide) return std::nullopt;
  std::optional<TempoChange> best;
  double best_score = 0;
  const std::size_t stride = std::max<std::size_t>(1, points.size() / kMostTried);
  for (std::size_t cut = kSide; cut + kSide <= points.size(); cut += stride) {
    const std::vector<double> left = seconds_of(points, 0, cut);
    const std::vector<double> right = seconds_of(points, cut, points.size());
    const double before = median(left);
    const double after = median(right);
    const double width =
        std::max(quantile(left, 0.75) - quantile(left, 0.25), quantile(right, 0.75) - quantile(right, 0.25));
    const double moved = std::abs(after - before);
    const double score = moved * std::sqrt(static_cast<double>(std::min(cut, points.size() - cut)));
    if (moved < 0.05 * before || moved < 2 * width || score <= best_score) continue;
    best_score = score;
    // The best cut may lie a little off; the change began with the first step that is nearer to what follows.
    const auto is_after = [&](std::size_t i) {
      return std::abs(points[i].seconds - after) < std::abs(points[i].seconds - before);
    };
    std::size_t first = cut;
    while (first + 1 < points.size() && !is_after(first)) ++first;
    while (first > 0 && is_after(first - 1)) --first;
    best = TempoChange{points[first].step, before, after, points[first].line};
  }
  return best;
}

void find_spikes(const std::vector<PacePoint>& points, Tempo& tempo) {
  std::vector<std::int64_t> at;
  double lost = 0;
  double all = 0;
  for (const PacePoint& point : points) {
    all += point.seconds;
    if (point.seconds <= 1.5 * tempo.steady) continue;
    lost += point.seconds - tempo.steady;
    at.push_back(point.step);
  }
  tempo.spikes = at.size();
  tempo.lost_to_spikes = all > 0 ? lost / all : 0;
  std::map<std::int64_t, std::size_t> gaps;
  for (std::size_t i = 1; i < at.size(); ++i) ++gaps[at[i] - at[i - 1]];
  for (const auto& [gap, count] : gaps)
    if (gap > 1 && count >= 2 && 10 * count >= 6 * (at.size() - 1)) tempo.period = gap;
}

// The mean of the middle half: one bad step does not move it, and neither does which of two levels is the median.
double middle_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t quarter = values.size() / 4;
  double sum = 0;
  for (std::size_t i = quarter; i < values.size() - quarter; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * quarter);
}

// Slope by the first and the last third.
double drift_of(const std::vector<PacePoint>& points, double steady) {
  constexpr std::size_t kEnough = 15;
  if (points.size() < kEnough || steady <= 0) return 0;
  const std::size_t third = points.size() / 3;
  const double first = middle_mean(seconds_of(points, 0, third));
  const double last = middle_mean(seconds_of(points, points.size() - third, points.size()));
  const std::vector<double> end = seconds_of(points, points.size() - third, points.size());
  // Less than the steps differ among themselves is no drift.
  if (std::abs(last - first) < quantile(end, 0.75) - quantile(end, 0.25)) return 0;
  const std::size_t half = third / 2;
  const auto apart = static_cast<double>(points[points.size() - 1 - half].step - points[half].step);
  return apart > 0 ? (last - first) / steady / apart * 100 : 0;
}

}  // namespace

std::optional<Tempo> tempo_of(const std::vector<PacePoint>& all) {
  std::vector<PacePoint> points;
  for (const PacePoint& point : all)
    if (point.seconds > 0 && std::isfinite(point.seconds)) points.push_back(point);
  if (points.size() < kFewest) return std::nullopt;
  Tempo tempo;
  tempo.warm_up_steps = warm_up_points(points);
  const std::vector<PacePoint> later(points.begin() + static_cast<std::ptrdiff_t>(tempo.warm_up_steps), points.end());
  const std::vector<double> seconds = seconds_of(later, 0, later.size());
  tempo.steps = later.size();
  tempo.steady = median(seconds);
  tempo.low = quantile(seconds, 0.1);
  tempo.high = quantile(seconds, 0.9);
  for (std::size_t i = 0; i < tempo.warm_up_steps; ++i) tempo.warm_up += points[i].seconds - tempo.steady;
  tempo.change = find_change(later);
  find_spikes(later, tempo);
  if (!tempo.change) tempo.drift = drift_of(later, tempo.steady);
  return tempo;
}

}  // namespace plimsoll::why
