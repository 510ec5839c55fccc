// SPDX-License-Identifier: Apache-2.0
#include "replay/exact.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "replay/event_text.h"
#include "replay/player.h"
#include "replay/recorded_driver.h"
#include "replay/tracker.h"

namespace plimsoll::replay {

namespace {

using allocator::BlockState;
using snapshot::Action;

constexpr std::int64_t kEndless = std::int64_t{1} << 46;

class Comparison {
 public:
  Comparison(const History& history, const allocator::Settings& settings, const RecordedLimits& limits,
             Watcher* watcher = nullptr)
      : history_(history),
        events_(history.snapshot->events),
        limits_(limits),
        driver_(history, limits.total > 0 ? limits.total : kEndless),
        player_(history, settings, driver_),
        tracker_(history, watcher) {}

  ExactReplay run() {
    result_.events = history_.events.count;
    if (!play_until(history_.ops.size())) return finish_early();
    gather(history_.events.first + history_.events.count);
    if (!driver_.finished() && !empty_cache()) return finish_early();
    complete_deferred();
    result_.reproduced = result_.events;
    compare_final();
    return finish();
  }

  std::vector<allocator::SegmentView> state_after(std::uint32_t last) {
    static_cast<void>(play_until(std::min<std::size_t>(std::size_t{last} + 1, history_.ops.size())));
    return player_.allocator().segments();
  }

 private:
  bool play_until(std::size_t end) {
    player_.restore_start();
    tracker_.start(player_.allocator().stats());
    for (op_ = 0; op_ < end; ++op_) {
      if (op_ % kLookEvery == 0 && interrupted()) return false;
      const Op op = history_.ops[op_];
      if (op.kind == OpKind::kEmptyCache) continue;  // found again from the driver calls
      gather(op.event);
      if (!play(op)) return false;
      tracker_.after(static_cast<std::uint32_t>(op_), op.event, player_.allocator().stats());
    }
    return true;
  }

  // The driver calls recorded before an event are what the next operation must make.
  void gather(std::uint32_t event) {
    const std::size_t first = driver_.position();
    while (next_driver_event_ < history_.driver_events.size() && history_.driver_events[next_driver_event_] < event)
      ++next_driver_event_;
    driver_.set_script(first, next_driver_event_);
  }

  bool play(const Op& op) {
    switch (op.kind) {
      case OpKind::kAlloc:
        return serve(player_.request(op.object), op.event, op.object);
      case OpKind::kOom:
        return serve(player_.oom_request(op.event), op.event, kNever);
      case OpKind::kCompleteFree:
        if (!driver_.finished() && !empty_cache()) return false;
        deferred_.push_back(op.object);
        return true;
      case OpKind::kFree:
      case OpKind::kRequestFree: {
        if (!driver_.finished() && !empty_cache()) return false;
        const allocator::BlockId block = player_.block(op.object);
        if (block == allocator::kNoBlock || player_.allocator().address(block) != events_.address[op.event])
          return differ(op.event, "a block that the replay does not have there");
        complete_deferred();
        op.kind == OpKind::kFree ? player_.free(op.object) : player_.request_free(op.object);
        return true;
      }
      case OpKind::kEmptyCache:
        break;
    }
    return true;
  }

  // Memory was given back outside a request that could have caused it: the program called empty_cache().
  bool empty_cache() {
    complete_deferred();
    result_.empty_caches.push_back(static_cast<std::uint32_t>(op_));
    const std::size_t before = driver_.position();
    player_.empty_cache();
    if (auto difference = driver_.take_difference()) return differ(std::move(*difference));
    if (driver_.position() == before) return differ(history_.driver_events[before], "no call to the driver");
    return true;
  }

  void complete_deferred() {
    for (const std::uint32_t object : deferred_) player_.complete_free(object);
    deferred_.clear();
  }

  [[nodiscard]] bool exceeds_limits(const allocator::Request& request) const {
    const allocator::CachingAllocator& cache = player_.allocator();
    const std::int64_t more = cache.segment_bytes(request.bytes);
    const std::int64_t reserved = cache.stats().reserved;
    if (limits_.reserved && reserved + more > *limits_.reserved) return true;
    const auto& fraction = cache.settings().fraction;
    return fraction && *fraction < 1 &&
           reserved + more > static_cast<std::int64_t>(*fraction * static_cast<double>(driver_.total()));
  }

  [[nodiscard]] bool may_collect(const allocator::Request& request) const {
    const allocator::CachingAllocator& cache = player_.allocator();
    return cache.settings().gc_threshold > 0 && cache.settings().fraction && !cache.would_hit(request);
  }

  // Frees that a release completed are recorded before the calls that it makes, though the search came before them
  // (facts pytorch-allocator.md 6): they wait until it is clear whose they are.
  bool serve(const allocator::Request& request, std::uint32_t event, std::uint32_t object) {
    const allocator::CachingAllocator& cache = player_.allocator();
    const bool releases =
        driver_.next_gives() && !cache.would_hit(request) && (exceeds_limits(request) || may_collect(request));
    if (!releases) {
      complete_deferred();
      if (driver_.next_gives() && !may_collect(request) && !empty_cache()) return false;
    }
    anchor(request);
    const auto block = player_.allocator().allocate(request);
    player_.forget_completed();
    complete_deferred();
    if (auto difference = driver_.take_difference()) return differ(std::move(*difference));
    if (!driver_.finished()) return differ(history_.driver_events[driver_.position()], "no such call to the driver");
    if (object == kNever) {
      if (block) return differ(event, "the request is served");
      note_oom(request, event);
      return true;
    }
    if (!block) return differ(event, "out of memory");
    player_.set_block(object, *block);
    if (cache.address(*block) != events_.address[event])
      return differ(event, fmt::format("alloc of {} bytes at {:#x}", request.bytes, cache.address(*block)));
    return true;
  }

  // A range that a failed request left behind shows its address when it is first mapped.
  void anchor(const allocator::Request& request) {
    const std::optional<std::uint32_t> map = driver_.first_map();
    if (!map || player_.allocator().in_range(events_.address[*map])) return;
    const bool small = player_.allocator().segment_bytes(request.bytes) == allocator::kSmallSegment;
    player_.allocator().anchor_range(request.stream, request.pool, small, events_.address[*map]);
  }

  bool differ(std::uint32_t event, std::string simulated) {
    return differ({event, event_text(*history_.snapshot, event), std::move(simulated)});
  }
  bool differ(Difference difference) {
    if (difference.event == kNever)  // a call of ours beyond the script: it belongs to the operation at hand
      difference.event = op_ < history_.ops.size() ? history_.ops[op_].event : history_.events.first;
    result_.first_difference = std::move(difference);
    return false;
  }

  ExactReplay finish_early() {
    result_.reproduced = result_.first_difference->event - history_.events.first;
    return finish();
  }

  ExactReplay finish() {
    result_.run = std::move(tracker_.run());
    result_.run.stats = player_.allocator().stats();
    result_.run.finished = result_.reproduced == result_.events;
    return std::move(result_);
  }

  void note_oom(const allocator::Request& request, std::uint32_t event) {
    if (tracker_.run().oom) return;
    const allocator::CachingAllocator& cache = player_.allocator();
    RunOutOfMemory oom;
    oom.op = static_cast<std::uint32_t>(op_);
    oom.event = event;
    oom.requested = request.bytes;
    oom.asked = cache.segment_bytes(request.bytes);
    oom.allocated = cache.stats().allocated;
    oom.reserved = cache.stats().reserved;
    oom.largest_free = cache.largest_free();
    oom.was_recorded = true;
    oom.would_hit = cache.would_hit(request);
    tracker_.run().oom = oom;
  }

  void compare_final();

  const History& history_;
  const snapshot::Events& events_;
  RecordedLimits limits_;
  RecordedDriver driver_;
  Player player_;
  Tracker tracker_;
  ExactReplay result_;
  std::size_t op_ = 0;
  std::size_t next_driver_event_ = 0;
  std::vector<std::uint32_t> deferred_;
};

std::string block_text(const allocator::BlockView& block) {
  const char* state = block.state == BlockState::kFree      ? "inactive"
                      : block.state == BlockState::kPending ? "active_pending_free"
                                                            : "active_allocated";
  return fmt::format("{} block of {} bytes at {:#x}", state, block.size, block.address);
}

void Comparison::compare_final() {
  if (!history_.has_final_segments) return;
  const snapshot::Snapshot& snapshot = *history_.snapshot;
  std::vector<const snapshot::Segment*> recorded;
  for (std::uint32_t s = 0; s < snapshot.device_segments.count; ++s) {
    const snapshot::Segment& segment = snapshot.segments[snapshot.device_segments.first + s];
    if (segment.device == history_.device) recorded.push_back(&segment);
  }
  std::sort(recorded.begin(), recorded.end(), [](const auto* a, const auto* b) { return a->address < b->address; });
  const std::vector<allocator::SegmentView> simulated = player_.allocator().segments();
  const auto differs = [this](std::string was, std::string is) {
    result_.first_difference = Difference{kNever, std::move(was), std::move(is)};
    result_.final_blocks_equal = false;
  };
  if (recorded.size() != simulated.size())
    return differs(fmt::format("{} segments at the end", recorded.size()), fmt::format("{}", simulated.size()));
  for (std::size_t s = 0; s < recorded.size(); ++s) {
    const snapshot::Segment& was = *recorded[s];
    const allocator::SegmentView& is = simulated[s];
    if (was.address != is.address || was.total_size != is.size || was.is_expandable != is.expandable ||
        was.is_small != is.small || player_.stream(was.stream) != is.stream || was.blocks.count != is.blocks.size())
      return differs(
          fmt::format("segment of {} bytes at {:#x} with {} blocks", was.total_size, was.address, was.blocks.count),
          fmt::format("segment of {} bytes at {:#x} with {} blocks", is.size, is.address, is.blocks.size()));
    for (std::uint32_t b = 0; b < was.blocks.count; ++b) {
      const snapshot::Block& block = snapshot.blocks[was.blocks.first + b];
      const allocator::BlockView recorded_block{block.address, block.size, 0,
                                                block.state == snapshot::BlockState::kInactive ? BlockState::kFree
                                                : block.state == snapshot::BlockState::kActivePendingFree
                                                    ? BlockState::kPending
                                                    : BlockState::kAllocated,
                                                0};
      const allocator::BlockView& mine = is.blocks[b];
      if (recorded_block.address != mine.address || recorded_block.size != mine.size ||
          recorded_block.state != mine.state)
        return differs(block_text(recorded_block), block_text(mine));
    }
  }
  result_.final_blocks_equal = true;
}

}  // namespace

ExactReplay replay_exactly(const History& history, const allocator::Settings& settings, const RecordedLimits& limits,
                           Watcher* watcher) {
  return Comparison(history, settings, limits, watcher).run();
}

std::vector<allocator::SegmentView> exact_state_after(const History& history, const allocator::Settings& settings,
                                                      const RecordedLimits& limits, std::uint32_t op) {
  return Comparison(history, settings, limits).state_after(op);
}

void insert_empty_caches(History& history, const std::vector<std::uint32_t>& before_ops) {
  if (before_ops.empty()) return;
  std::vector<Op> ops;
  ops.reserve(history.ops.size() + before_ops.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i <= history.ops.size(); ++i) {
    for (; next < before_ops.size() && before_ops[next] == i; ++next) {
      const std::uint32_t event =
          i < history.ops.size() ? history.ops[i].event : history.events.first + history.events.count - 1;
      ops.emplace_back(OpKind::kEmptyCache, 0U, event);
    }
    if (i < history.ops.size()) ops.push_back(history.ops[i]);
  }
  history.ops = std::move(ops);
}

void insert_empty_caches(History& history, ExactReplay& exact) {
  insert_empty_caches(history, exact.empty_caches);
  const auto moved = [&exact](std::uint32_t op) {
    const auto before = std::upper_bound(exact.empty_caches.begin(), exact.empty_caches.end(), op);
    return op + static_cast<std::uint32_t>(before - exact.empty_caches.begin());
  };
  exact.run.peak_allocated_op = moved(exact.run.peak_allocated_op);
  exact.run.peak_reserved_op = moved(exact.run.peak_reserved_op);
  if (exact.run.oom) exact.run.oom->op = moved(exact.run.oom->op);
}

}  // namespace plimsoll::replay
