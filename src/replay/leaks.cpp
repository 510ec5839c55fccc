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

// Bytes alive after every operation, from what was alive at the start.
template <class Visit>
void walk_alive(const History& history, const Visit& visit) {
  std::int64_t alive = 0;
  for (const Initial& initial : history.initial) alive += initial.requested;
  visit(alive);
  for (const Op& op : history.ops) {
    if (op.kind == OpKind::kAlloc) alive += history.bytes_of(op.object);
    if (op.kind == OpKind::kFree || op.kind == OpKind::kRequestFree) alive -= history.bytes_of(op.object);
    visit(alive);
  }
}

// Whether the history comes back to about where it was, as steps do. One forward pass also holds more after each of its
// parts; but what a layer keeps is more than the temporaries that it drops.
bool has_rounds(const History& history) {
  constexpr std::size_t kFewestRounds = 3;
  std::int64_t high = 0;
  std::int64_t deepest = 0;
  walk_alive(history, [&](std::int64_t alive) {
    high = std::max(high, alive);
    deepest = std::max(deepest, high - alive);
  });
  std::vector<std::int64_t> tops;  // each before a fall of half the deepest or more
  bool is_rising = true;
  std::int64_t turn = 0;  // highest since the last fall, or lowest since the last rise
  walk_alive(history, [&](std::int64_t alive) {
    turn = is_rising ? std::max(turn, alive) : std::min(turn, alive);
    if (deepest == 0 || (is_rising ? turn - alive : alive - turn) * 2 < deepest) return;
    if (is_rising) tops.push_back(turn);
    is_rising = !is_rising;
    turn = alive;
  });
  if (tops.size() < kFewestRounds) return false;
  const std::int64_t gained = (tops.back() - tops.front()) / static_cast<std::int64_t>(tops.size() - 1);
  return gained * 2 <= deepest;
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
  if (!report.by_optimizer && !has_rounds(history)) return report;
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
