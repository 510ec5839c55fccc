// SPDX-License-Identifier: Apache-2.0
#include "memory/walk.h"

#include <algorithm>
#include <map>
#include <utility>

#include "allocator/caching.h"
#include "allocator/roomy.h"

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

namespace {

// The highest point of a run of events that one moment has.
struct High {
  std::int64_t allocated = 0;
  std::int64_t requested = 0;
  std::int64_t reserved = 0;
  std::size_t event = 0;
};

// The whole policy, also where memory runs out.
class Caching {
 public:
  using Handle = allocator::BlockId;

  Caching(const allocator::Settings& settings, allocator::SimulatedDriver driver)
      : driver_(std::move(driver)), allocator_(settings, driver_) {
    for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i] = allocator_.add_stream(i);
  }
  bool allocate(const step::Event& event, Handle& block) {
    const auto served = allocator_.allocate({event.requested, streams_[static_cast<std::size_t>(event.stream)]});
    block = served.value_or(allocator::kNoBlock);
    return served.has_value();
  }
  void free(Handle block) { allocator_.free(block); }
  [[nodiscard]] std::int64_t allocated() const { return allocator_.stats().allocated; }
  [[nodiscard]] std::int64_t reserved() const { return allocator_.stats().reserved; }
  [[nodiscard]] std::int64_t peak_reserved() const { return allocator_.stats().peak_reserved; }
  [[nodiscard]] std::int64_t driver_calls() const { return allocator_.stats().driver_calls(); }
  bool release_cached() {
    allocator_.release_cached();
    return true;
  }

 private:
  allocator::SimulatedDriver driver_;
  allocator::CachingAllocator allocator_;
  std::array<std::uint32_t, step::kStreams> streams_{};
};

// The same as long as there is room.
class Roomy {
 public:
  using Handle = allocator::RoomyAllocator::Block*;

  Roomy(const allocator::Settings& settings, const allocator::SimulatedDriver& driver)
      : allocator_(settings, driver, step::kStreams) {}
  bool allocate(const step::Event& event, Handle& block) {
    block = allocator_.allocate(event.bytes, static_cast<std::uint32_t>(event.stream));
    return block != nullptr;
  }
  void free(Handle block) { allocator_.free(block); }
  [[nodiscard]] std::int64_t allocated() const { return allocator_.allocated(); }
  [[nodiscard]] std::int64_t reserved() const { return allocator_.reserved(); }
  [[nodiscard]] std::int64_t peak_reserved() const { return allocator_.peak_reserved(); }
  [[nodiscard]] std::int64_t driver_calls() const { return allocator_.driver_calls(); }
  bool release_cached() { return allocator_.release_cached(); }

 private:
  allocator::RoomyAllocator allocator_;
};

// A tape on its way through an allocator.
template <class Allocator>
class Walker {
 public:
  Walker(const step::Tape& tape, const allocator::Settings& settings, const allocator::SimulatedDriver& driver,
         Levels* levels)
      : tape_(tape), allocator_(settings, driver), levels_(levels), block_of_(tape.tensors()) {}

  Walk run() {
    const auto& marks = tape_.marks();
    const std::size_t events = tape_.size();
    std::size_t next_mark = 0;
    for (std::size_t i = 0; i < events && !result_.out_of_memory;) {
      for (; next_mark < marks.size() && marks[next_mark].event <= i; ++next_mark) enter(marks[next_mark]);
      if (result_.out_of_memory) break;
      const std::size_t last =
          next_mark < marks.size() ? std::min<std::size_t>(marks[next_mark].event, events) : events;
      note(levels_ == nullptr ? follow<false>(last) : follow<true>(last));
      i = last;
    }
    leave_phase();
    for (; next_mark < marks.size(); ++next_mark) {  // phases without an event of their own
      moment_ = marks[next_mark].moment;
      leave_phase();
    }
    for (const PeakPoint& group : result_.by_group)
      if (group.allocated > result_.peak.allocated) result_.peak = group;
    result_.peak_reserved = allocator_.peak_reserved();
    result_.driver_calls = allocator_.driver_calls();
    return std::move(result_);
  }

 private:
  void leave_phase() {
    result_.by_phase[static_cast<std::size_t>(moment_.phase)].allocated_after = allocator_.allocated();
  }
  void enter(const step::Mark& mark) {
    if (mark.moment.phase != moment_.phase) leave_phase();
    moment_ = mark.moment;
    // An allocator that cannot do it gives up, as it does where it has no room.
    if (mark.empties_cache && !allocator_.release_cached())
      result_.out_of_memory = OutOfMemory{moment_, 0, step::Name::kHidden};
  }

  // The events before `last`, up to the one that cannot be served.
  template <bool kWithLevels>
  High follow(std::size_t last) {
    High high;
    tape_.follow(cursor_, last, [this, &high](const step::Event& event, std::uint32_t id) {
      requested_ += event.bytes;
      if (event.bytes < 0) {
        allocator_.free(block_of_[id]);
      } else if (event.bytes > 0) {
        if (!allocator_.allocate(event, block_of_[id])) {
          result_.out_of_memory = OutOfMemory{moment_, event.requested, event.name};
          return false;
        }
        const std::int64_t allocated = allocator_.allocated();
        if (allocated > high.allocated) high = {allocated, requested_, allocator_.reserved(), cursor_.event};
      }
      if constexpr (kWithLevels) {
        levels_->allocated.push_back(allocator_.allocated());
        levels_->reserved.push_back(allocator_.reserved());
      }
      return true;
    });
    return high;
  }

  void note(const High& high) {
    PhasePeak& phase = result_.by_phase[static_cast<std::size_t>(moment_.phase)];
    phase.peak_allocated = std::max(phase.peak_allocated, high.allocated);
    PeakPoint& group = result_.by_group[static_cast<std::size_t>(group_of(moment_))];
    if (high.allocated > group.allocated)
      group = {high.allocated, high.requested, high.reserved, static_cast<std::uint32_t>(high.event), moment_};
  }

  const step::Tape& tape_;
  step::Tape::Cursor cursor_;
  Allocator allocator_;
  Levels* levels_;
  std::vector<typename Allocator::Handle> block_of_;  // by the tensor's id
  std::int64_t requested_ = 0;
  step::Moment moment_;
  Walk result_;
};

}  // namespace

Walk walk(const step::Tape& tape, const allocator::Settings& settings, std::int64_t capacity, bool stop_at_capacity,
          std::int64_t device_total, Levels* levels) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 55;
  if (!stop_at_capacity) capacity = device_total = kEndless;
  const allocator::SimulatedDriver driver(capacity, device_total > 0 ? device_total : capacity);
  allocator::Settings used = settings;
  if (!stop_at_capacity) used.fraction.reset();
  if (allocator::RoomyAllocator::covers(used) && tape.peak() <= capacity) {
    Walk walked = Walker<Roomy>(tape, used, driver, levels).run();
    if (!walked.out_of_memory) return walked;
    if (levels != nullptr) *levels = {};
  }
  return Walker<Caching>(tape, used, driver, levels).run();
}

std::vector<Alive> alive_at(const step::Tape& tape, std::uint32_t event) {
  struct Live {
    step::Name name = step::Name::kHidden;
    std::int64_t bytes = 0;
  };
  std::vector<Live> live;
  step::Tape::Cursor cursor;
  tape.follow(cursor, std::min<std::size_t>(std::size_t{event} + 1, tape.size()),
              [&live](const step::Event& e, std::uint32_t id) {
                if (e.bytes > 0) {
                  live.push_back({e.name, e.bytes});
                } else if (e.bytes < 0) {
                  live[id].bytes = 0;
                } else {
                  live[id].name = e.name;
                }
                return true;
              });
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
