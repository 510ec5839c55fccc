// SPDX-License-Identifier: Apache-2.0
#include "memory/walk.h"

#include <algorithm>
#include <map>

#include "allocator/caching.h"

namespace plimsoll::memory {

using step::Operation;
using step::Phase;

PeakGroup group_of(const step::Moment& moment) {
  switch (moment.phase) {
    case Phase::kModel:
    case Phase::kWrap:
    case Phase::kOptimizer:
      return PeakGroup::kConstruction;
    case Phase::kFirstUpdate:
    case Phase::kUpdate:
      return PeakGroup::kUpdate;
    case Phase::kEvaluation:
      return PeakGroup::kEvaluation;
    case Phase::kFirstForward:
    case Phase::kForward:
    case Phase::kFirstBackward:
    case Phase::kBackward:
      break;
  }
  const Operation op = moment.operation;
  if (op == Operation::kLoss || op == Operation::kHead) return PeakGroup::kLoss;
  return moment.phase == Phase::kForward || moment.phase == Phase::kFirstForward ? PeakGroup::kForward
                                                                                 : PeakGroup::kBackward;
}

std::string_view text_of(PeakGroup group) {
  switch (group) {
    case PeakGroup::kConstruction:
      return "construction";
    case PeakGroup::kForward:
      return "forward";
    case PeakGroup::kLoss:
      return "loss";
    case PeakGroup::kBackward:
      return "backward";
    case PeakGroup::kUpdate:
      return "optimizer step";
    case PeakGroup::kEvaluation:
      return "evaluation";
  }
  return {};
}

Walk walk(const step::Tape& tape, const allocator::Settings& settings, std::int64_t capacity, bool stop_at_capacity,
          std::int64_t device_total, Levels* levels) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 55;
  if (!stop_at_capacity) capacity = device_total = kEndless;
  allocator::SimulatedDriver driver(capacity, device_total > 0 ? device_total : capacity);
  allocator::Settings used = settings;
  if (!stop_at_capacity) used.fraction.reset();
  allocator::CachingAllocator allocator(used, driver);
  std::array<std::uint32_t, step::kStreams> streams{};
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i] = allocator.add_stream(i);
  std::vector<allocator::CachingAllocator::BlockId> block_of;
  block_of.reserve(tape.events().size() / 2 + 1);

  Walk result;
  std::int64_t requested = 0;
  std::size_t next_mark = 0;
  step::Moment moment;
  const auto& marks = tape.marks();
  const auto& events = tape.events();
  for (std::size_t i = 0; i < events.size() && !result.out_of_memory;) {
    for (; next_mark < marks.size() && marks[next_mark].event <= i; ++next_mark) {
      result.by_phase[static_cast<std::size_t>(moment.phase)].allocated_after = allocator.stats().allocated;
      moment = marks[next_mark].moment;
    }
    const std::size_t last =
        next_mark < marks.size() ? std::min<std::size_t>(marks[next_mark].event, events.size()) : events.size();
    PhasePeak& phase = result.by_phase[static_cast<std::size_t>(moment.phase)];
    PeakPoint& group = result.by_group[static_cast<std::size_t>(group_of(moment))];
    for (; i < last; ++i) {
      const step::Event& event = events[i];
      requested += event.bytes;
      if (event.bytes < 0) {
        allocator.free(block_of[event.id]);
      } else if (event.bytes > 0) {
        const auto block =
            allocator.allocate(allocator::Request{event.requested, streams[static_cast<std::size_t>(event.stream)]});
        if (!block) {
          result.out_of_memory = OutOfMemory{moment, event.requested, event.name};
          break;
        }
        block_of.push_back(*block);  // ids count up from 0
        const std::int64_t allocated = allocator.stats().allocated;
        phase.peak_allocated = std::max(phase.peak_allocated, allocated);
        if (allocated > group.allocated)
          group = {allocated, requested, allocator.stats().reserved, static_cast<std::uint32_t>(i), moment};
      }
      if (levels == nullptr) continue;
      levels->allocated.push_back(allocator.stats().allocated);
      levels->reserved.push_back(allocator.stats().reserved);
    }
  }
  result.by_phase[static_cast<std::size_t>(moment.phase)].allocated_after = allocator.stats().allocated;
  for (; next_mark < marks.size(); ++next_mark)  // phases without an event of their own
    result.by_phase[static_cast<std::size_t>(marks[next_mark].moment.phase)].allocated_after =
        allocator.stats().allocated;
  for (const PeakPoint& group : result.by_group)
    if (group.allocated > result.peak.allocated) result.peak = group;
  result.peak_reserved = allocator.stats().peak_reserved;
  result.driver_calls = allocator.stats().driver_calls();
  return result;
}

std::vector<Alive> alive_at(const step::Tape& tape, std::uint32_t event) {
  struct Live {
    step::Name name = step::Name::kHidden;
    std::int64_t bytes = 0;
  };
  std::vector<Live> live;
  const auto& events = tape.events();
  for (std::size_t i = 0; i <= event && i < events.size(); ++i) {
    const step::Event& e = events[i];
    if (e.bytes > 0) {
      live.push_back({e.name, e.bytes});
    } else if (e.bytes < 0) {
      live[e.id].bytes = 0;
    } else {
      live[e.id].name = e.name;
    }
  }
  std::map<step::Name, Alive> by_name;
  for (const Live& tensor : live) {
    if (tensor.bytes == 0) continue;
    Alive& alive = by_name.try_emplace(tensor.name, Alive{tensor.name}).first->second;
    alive.bytes += tensor.bytes;
    ++alive.count;
  }
  std::vector<Alive> result;
  for (const auto& [name, alive] : by_name) result.push_back(alive);
  std::sort(result.begin(), result.end(), [](const Alive& a, const Alive& b) { return a.bytes > b.bytes; });
  return result;
}

}  // namespace plimsoll::memory
