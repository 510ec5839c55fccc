// SPDX-License-Identifier: Apache-2.0
// A leak is allocated memory that rises from step to step; reserved memory that rises and levels off is
// the cache at work (facts out-of-memory.md 4).
#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "why/diagnosis.h"

namespace plimsoll::why {

namespace {

struct Trend {
  std::size_t points = 0;
  double rising_share = 0;  // of the differences between neighbours
  double late_share = 0;    // of the rise that happens in the second half of the points
  double thirds = 0;        // mean of the last third over that of the first
  bool peaks_late = false;  // the largest is in the last third
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
  const StepPoint* begin = nullptr;
  const StepPoint* end = nullptr;
};

Trend trend_of(const StepSeries& series, std::int64_t StepPoint::* gauge) {
  Trend trend;
  std::vector<const StepPoint*> points;
  for (const StepPoint& point : series.points)
    if (point.*gauge > 0) points.push_back(&point);
  trend.points = points.size();
  // The first step allocates what lasts: optimizer state, workspaces. It is no growth.
  const bool begins_late = !points.empty() && points.front()->step > 1;
  if (points.size() < (begins_late ? 3U : 4U)) return trend;
  if (!begins_late || points.size() > 3) points.erase(points.begin());
  std::size_t rises = 0;
  trend.least = trend.most = points.front()->*gauge;
  for (std::size_t i = 1; i < points.size(); ++i) {
    rises += points[i]->*gauge > points[i - 1]->*gauge ? 1 : 0;
    trend.least = std::min(trend.least, points[i]->*gauge);
    trend.most = std::max(trend.most, points[i]->*gauge);
  }
  trend.rising_share = static_cast<double>(rises) / static_cast<double>(points.size() - 1);
  trend.begin = points.front();
  trend.end = points.back();
  trend.first = trend.begin->*gauge;
  trend.last = trend.end->*gauge;
  const std::size_t third = (points.size() + 2) / 3;
  double early = 0;
  double late = 0;
  for (std::size_t i = 0; i < third; ++i) {
    early += static_cast<double>(points[i]->*gauge);
    late += static_cast<double>(points[points.size() - 1 - i]->*gauge);
    trend.peaks_late = trend.peaks_late || points[points.size() - 1 - i]->*gauge == trend.most;
  }
  trend.thirds = early > 0 ? late / early : 0;
  const std::int64_t middle = points[points.size() / 2]->*gauge;
  if (trend.last > trend.first)
    trend.late_share = static_cast<double>(trend.last - middle) / static_cast<double>(trend.last - trend.first);
  return trend;
}

}  // namespace

Growth growth_of(const Findings& findings) {
  struct Choice {
    std::int64_t StepPoint::* gauge;
    const char* name;
    bool is_host;
  };
  static constexpr Choice kChoices[] = {{&StepPoint::allocated, "allocated", false},
                                        {&StepPoint::used, "used", false},
                                        {&StepPoint::peak, "peak", false},
                                        {&StepPoint::host, "host memory", true}};
  Growth growth;
  for (const Choice& choice : kChoices) {
    for (const StepSeries& series : findings.series) {
      const Trend trend = trend_of(series, choice.gauge);
      if (trend.begin == nullptr) continue;
      const std::int64_t rise = trend.last - trend.first;
      const bool rising = trend.rising_share >= 0.7 && trend.late_share >= 0.2 && rise * 20 > trend.first;
      const bool flat = trend.points >= 5 && (trend.most - trend.least) * 33 <= trend.most;
      const bool noisy = !rising && trend.points >= 5 && trend.peaks_late && trend.thirds >= 1.2;
      // What lives between steps does not follow the batch, a step's peak does.
      const bool follows_batch = choice.gauge == &StepPoint::used || choice.gauge == &StepPoint::peak;
      if (!rising && !noisy && follows_batch && (trend.most - trend.least) * 4 >= trend.least) growth.varies = true;
      if (!rising && !noisy && !(flat && !growth.flat)) continue;
      growth.rising = rising || noisy;
      growth.is_noisy = noisy;
      growth.flat = flat && !growth.rising;
      growth.first_text = series.first_text;
      growth.last_text = series.last_text;
      growth.is_host = choice.is_host;
      growth.gauge = choice.name;
      growth.first = trend.first;
      growth.last = trend.last;
      growth.first_step = trend.begin->step;
      growth.last_step = trend.end->step;
      const std::int64_t steps = std::max<std::int64_t>(1, growth.last_step - growth.first_step);
      growth.per_step = rise / steps;
      growth.first_place = trend.begin->place;
      growth.last_place = trend.end->place;
      if (growth.rising) return growth;
    }
    if (growth.flat) return growth;
  }
  return growth;
}

}  // namespace plimsoll::why
