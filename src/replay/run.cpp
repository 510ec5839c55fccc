// SPDX-License-Identifier: Apache-2.0
#include "replay/run.h"

#include <algorithm>

#include "base/interrupt.h"
#include "replay/player.h"
#include "replay/tracker.h"

namespace plimsoll::replay {

namespace {

allocator::SimulatedDriver make_driver(const Conditions& conditions) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 46;
  const std::int64_t capacity = std::min(conditions.capacity, kEndless);
  return {capacity, conditions.total > 0 ? conditions.total : capacity, conditions.placement};
}

void play(Player& player, const Op& op) {
  switch (op.kind) {
    case OpKind::kFree:
      player.free(op.object);
      break;
    case OpKind::kRequestFree:
      player.request_free(op.object);
      break;
    case OpKind::kCompleteFree:
      player.complete_free(op.object);
      break;
    case OpKind::kEmptyCache:
      player.empty_cache();
      break;
    case OpKind::kAlloc:
    case OpKind::kOom:
      break;
  }
}

RunOutOfMemory describe(const Player& player, const allocator::SimulatedDriver& driver,
                        const allocator::Request& request) {
  const allocator::CachingAllocator& cache = player.allocator();
  const allocator::Settings& settings = cache.settings();
  std::int64_t left = driver.free_bytes();
  if (settings.fraction && *settings.fraction < 1) {
    const auto allowed = static_cast<std::int64_t>(*settings.fraction * static_cast<double>(driver.total()));
    left = std::min(left, allowed - cache.stats().reserved);
  }
  RunOutOfMemory oom;
  oom.requested = request.bytes;
  oom.asked = cache.segment_bytes(request.bytes);
  oom.missing = std::max<std::int64_t>(oom.asked - left, 0);
  oom.allocated = cache.stats().allocated;
  oom.reserved = cache.stats().reserved;
  oom.largest_free = cache.largest_free();
  oom.would_hit = cache.would_hit(request);
  return oom;
}

}  // namespace

std::int64_t largest_request(const History& history) {
  std::int64_t largest = 0;
  for (const Op& op : history.ops)
    if (op.kind == OpKind::kAlloc || op.kind == OpKind::kOom)
      largest = std::max(largest, history.snapshot->events.size[op.event]);
  return largest;
}

Run run(const History& history, const Conditions& conditions, Watcher* watcher) {
  allocator::SimulatedDriver driver = make_driver(conditions);
  Player player(history, conditions.settings, driver);
  const allocator::Stats& stats = player.allocator().stats();
  Tracker tracker(history, watcher);
  Run& result = tracker.run();
  const auto finish = [&](std::uint32_t ops) {
    result.stats = stats;
    result.finished = ops == history.ops.size();
    return std::move(result);
  };
  if (!player.allocate_start()) {
    result.oom = describe(player, driver, {});
    return finish(0);
  }
  tracker.start(stats);
  const auto number_of_ops = static_cast<std::uint32_t>(history.ops.size());
  for (std::uint32_t i = 0; i < number_of_ops; ++i) {
    if (i % kLookEvery == 0 && interrupted()) return finish(i);
    const Op op = history.ops[i];
    if (op.kind != OpKind::kAlloc && op.kind != OpKind::kOom) {
      play(player, op);
    } else {
      const bool is_oom = op.kind == OpKind::kOom;
      const bool served = is_oom ? player.try_oom(op.event) : player.allocate(op.object);
      if (!served) {
        if (!result.oom) {
          result.oom = describe(player, driver, is_oom ? player.oom_request(op.event) : player.request(op.object));
          result.oom->op = i;
          result.oom->event = op.event;
          result.oom->was_recorded = is_oom;
        }
        if (!is_oom) return finish(i);
      }
    }
    tracker.after(i, op.event, stats);
  }
  return finish(number_of_ops);
}

std::vector<allocator::SegmentView> state_after(const History& history, const Conditions& conditions,
                                                std::uint32_t last) {
  allocator::SimulatedDriver driver = make_driver(conditions);
  Player player(history, conditions.settings, driver);
  if (!player.allocate_start()) return player.allocator().segments();
  for (std::uint32_t i = 0; i <= last && i < history.ops.size(); ++i) {
    const Op op = history.ops[i];
    if (op.kind == OpKind::kAlloc) {
      if (!player.allocate(op.object)) break;
    } else if (op.kind == OpKind::kOom) {
      static_cast<void>(player.try_oom(op.event));
    } else {
      play(player, op);
    }
  }
  return player.allocator().segments();
}

}  // namespace plimsoll::replay
