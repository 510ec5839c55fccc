// SPDX-License-Identifier: Apache-2.0
#include "replay/leaks.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::replay {

namespace {

constexpr std::size_t kWarmUp = 2;       // steps: caches fill, moments are created
constexpr std::size_t kMostSteps = 64;   // looked at; more are thinned out
constexpr std::size_t kEqualParts = 16;  // of a history without optimizer steps

// Events after which a step is over.
std::vector<std::uint32_t> boundaries(const History& history, const Attribution& attribution, bool& by_optimizer) {
  std::vector<std::uint32_t> ends;
  for (const Span& step : attribution.optimizer_steps()) ends.push_back(step.last);
  by_optimizer = ends.size() > kWarmUp + 2;
  if (!by_optimizer) {
    ends.clear();
    for (std::size_t part = 1; part <= kEqualParts; ++part)
      ends.push_back(history.events.first +
                     static_cast<std::uint32_t>(std::uint64_t{history.events.count} * part / kEqualParts) - 1);
  }
  if (ends.size() <= kMostSteps) return ends;
  std::vector<std::uint32_t> thinned;
  for (std::size_t i = 0; i < kMostSteps; ++i) thinned.push_back(ends[i * (ends.size() - 1) / (kMostSteps - 1)]);
  return thinned;
}

struct Origin {
  std::uint32_t stack = snapshot::kNoStack;
  std::int64_t object_bytes = 0;
  std::int64_t alive = 0;
  std::int64_t at_last_boundary = 0;
  std::int64_t first = -1;
  std::size_t rises = 0;
  std::size_t falls = 0;
};

}  // namespace

LeakReport find_leaks(const History& history, const Attribution& attribution) {
  LeakReport report;
  if (history.events.count < kEqualParts) return report;
  const std::vector<std::uint32_t> ends = boundaries(history, attribution, report.by_optimizer);
  const std::size_t warm_up = report.by_optimizer ? kWarmUp : kEqualParts / 4;
  std::vector<Origin> origins;
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  std::vector<std::uint32_t> origin_of(history.objects.size());
  const auto origin = [&](std::uint32_t object) -> Origin& {
    const std::uint32_t stack = history.stack_of(object);
    const bool told_by_stack = stack != snapshot::kNoStack && history.snapshot->stacks[stack].count > 0;
    const std::int64_t bytes = told_by_stack ? 0 : history.bytes_of(object);
    const std::uint64_t key = told_by_stack ? stack : (std::uint64_t{1} << 63) ^ static_cast<std::uint64_t>(bytes);
    const auto [at, is_new] = known.emplace(key, static_cast<std::uint32_t>(origins.size()));
    if (is_new) origins.push_back({stack, bytes});
    origin_of[object] = at->second;
    return origins[at->second];
  };
  for (const Initial& initial : history.initial) origin(initial.object).alive += initial.requested;

  std::size_t next = 0;
  const auto close_step = [&] {
    for (Origin& o : origins) {
      if (next >= warm_up) {
        if (o.first < 0) o.first = o.alive;
        if (next > warm_up) {
          o.rises += o.alive > o.at_last_boundary ? 1 : 0;
          o.falls += o.alive < o.at_last_boundary ? 1 : 0;
        }
      }
      o.at_last_boundary = o.alive;
    }
    ++next;
  };
  for (const Op& op : history.ops) {
    while (next < ends.size() && op.event > ends[next]) close_step();
    if (op.kind == OpKind::kAlloc) origin(op.object).alive += history.bytes_of(op.object);
    if (op.kind == OpKind::kFree || op.kind == OpKind::kRequestFree)
      origins[origin_of[op.object]].alive -= history.bytes_of(op.object);
  }
  while (next < ends.size()) close_step();

  const std::size_t looked_at = ends.size() > warm_up ? ends.size() - warm_up : 0;
  report.steps = looked_at;
  if (looked_at < 3) return report;
  const auto intervals = static_cast<std::int64_t>(looked_at - 1);
  for (const Origin& o : origins) {
    const std::int64_t first = std::max<std::int64_t>(o.first, 0);
    report.growth_per_step += (o.at_last_boundary - first) / intervals;
    // Rising after four of five steps and never falling: not a buffer that changes its size.
    if (o.falls > 0 || o.rises * 5 < static_cast<std::size_t>(intervals) * 4) continue;
    report.leaks.push_back(
        {o.stack, o.object_bytes, (o.at_last_boundary - first) / intervals, first, o.at_last_boundary, o.rises});
  }
  std::sort(report.leaks.begin(), report.leaks.end(),
            [](const Leak& a, const Leak& b) { return a.per_step > b.per_step; });
  return report;
}

}  // namespace plimsoll::replay
