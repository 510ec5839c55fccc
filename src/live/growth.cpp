// SPDX-License-Identifier: Apache-2.0
#include "live/growth.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::live {

namespace {

constexpr std::size_t kFewest = 6;               // readings after the second step
constexpr double kMostFalling = 0.25;            // share of changes that may go down
constexpr std::int64_t kLeastGrowth = 4 * kMiB;  // over all readings
constexpr double kLeastShare = 0.002;            // of what is allocated

}  // namespace

Trend trend_of(const RankRun& rank) {
  std::vector<const StepReading*> after;
  for (const StepReading& step : rank.steps)
    if (step.step > 2 && step.allocated > 0) after.push_back(&step);
  Trend trend;
  if (after.size() < kFewest) return trend;
  // Least squares of bytes over steps.
  double mean_step = 0;
  double mean_bytes = 0;
  for (const StepReading* step : after) {
    mean_step += static_cast<double>(step->step);
    mean_bytes += static_cast<double>(step->allocated);
  }
  mean_step /= static_cast<double>(after.size());
  mean_bytes /= static_cast<double>(after.size());
  double covariance = 0;
  double variance = 0;
  double spread = 0;
  std::size_t falling = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double x = static_cast<double>(after[i]->step) - mean_step;
    const double y = static_cast<double>(after[i]->allocated) - mean_bytes;
    covariance += x * y;
    variance += x * x;
    spread += y * y;
    if (i > 0 && after[i]->allocated < after[i - 1]->allocated) ++falling;
  }
  if (variance <= 0 || spread <= 0) return trend;
  const double slope = covariance / variance;
  const double explained = covariance * covariance / (variance * spread);  // squared correlation
  const double steps = static_cast<double>(after.back()->step - after.front()->step);
  const double grown = slope * steps;
  trend.bytes_per_step = static_cast<std::int64_t>(slope);
  const bool steady = static_cast<double>(falling) <= kMostFalling * static_cast<double>(after.size());
  trend.rising =
      grown > static_cast<double>(kLeastGrowth) && grown > kLeastShare * mean_bytes && explained > 0.8 && steady;
  const double seconds = after.back()->at - after.front()->at;
  if (!trend.rising || seconds <= 0) return trend;
  trend.bytes_per_second = grown / seconds;
  const std::int64_t outside = rank.outside.value_or(0);
  if (rank.total > 0)
    trend.seconds_left =
        std::max(0.0, static_cast<double>(rank.total - outside - after.back()->allocated)) / trend.bytes_per_second;
  return trend;
}

}  // namespace plimsoll::live
