// SPDX-License-Identifier: Apache-2.0
// Snapshots made in memory: a program runs on our own allocator over a simulated device, and what it does is written
// down as PyTorch would. So a test can say what was recorded, cut it, or change one event.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "allocator/caching.h"
#include "base/bytes.h"
#include "replay/history.h"

namespace plimsoll::replay::test {

class Recorder {
 public:
  explicit Recorder(std::string conf = {}, std::int64_t capacity = 80 * kGiB)
      : driver_(capacity, *this), allocator_(allocator::parse_settings(conf).value(), driver_) {
    snapshot_.settings = snapshot::AllocatorSettings{};
    snapshot_.settings->conf = std::move(conf);
    snapshot_.streams = {0};
    snapshot_.stacks.push_back({});  // an empty stack has a number too
  }

  // A stack of one frame: "file.py:1 name".
  std::uint32_t stack(const std::string& name, const std::string& file = "/home/user/train.py", std::int64_t line = 1) {
    snapshot::Frame frame{text(name), text(file), line};
    snapshot_.frames.push_back(frame);
    snapshot_.stacks.push_back({static_cast<std::uint32_t>(snapshot_.stack_frames.size()), 1});
    snapshot_.stack_frames.push_back(static_cast<std::uint32_t>(snapshot_.frames.size() - 1));
    return static_cast<std::uint32_t>(snapshot_.stacks.size() - 1);
  }

  // The number of the object, or -1 when memory ran out, which is recorded.
  int alloc(std::int64_t bytes, std::uint32_t stack = snapshot::kNoStack) {
    stack_ = stack;
    const auto block = allocator_.allocate(bytes);
    if (!block) {
      event(snapshot::Action::kOom, 0, allocator::round_size(allocator_.settings(), bytes));
      snapshot::Note note;
      note.event = static_cast<std::uint32_t>(snapshot_.events.count() - 1);
      note.device_free = driver_.free_bytes();
      snapshot_.notes.push_back(note);
      return -1;
    }
    event(snapshot::Action::kAlloc, allocator_.address(*block), bytes);
    live_[++last_] = {*block, bytes};
    return last_;
  }
  void request_free(int object, std::uint32_t stack = snapshot::kNoStack) {
    stack_ = stack;
    event(snapshot::Action::kFreeRequested, allocator_.address(live_.at(object).block), live_.at(object).bytes);
    allocator_.request_free(live_.at(object).block);
  }
  void complete_free(int object) {
    event(snapshot::Action::kFreeCompleted, allocator_.address(live_.at(object).block), live_.at(object).bytes);
    allocator_.complete_free(live_.at(object).block);
    live_.erase(object);
  }
  void free(int object, std::uint32_t stack = snapshot::kNoStack) {
    request_free(object, stack);
    complete_free(object);
  }
  void empty_cache() {
    stack_ = snapshot::kNoStack;
    allocator_.release_cached();
  }
  void annotate(const std::string& name, bool is_start) {
    snapshot_.annotations.push_back({is_start, text(name), 0, now()});
  }

  // What _snapshot() would return; without the first `cut` events, as if recording had begun late.
  snapshot::Snapshot take(std::size_t cut = 0) {
    snapshot::Snapshot s = snapshot_;
    snapshot::Events& e = s.events;
    const auto drop = [cut](auto& column) {
      column.erase(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(cut));
    };
    drop(e.action), drop(e.address), drop(e.size), drop(e.stream), drop(e.time_us), drop(e.stack);
    std::erase_if(s.notes, [cut](const snapshot::Note& note) { return note.event < cut; });
    for (snapshot::Note& note : s.notes) note.event -= static_cast<std::uint32_t>(cut);
    s.devices.push_back({{0, static_cast<std::uint32_t>(e.count())}, {}, {}});
    for (const allocator::SegmentView& view : allocator_.segments()) {
      snapshot::Segment segment;
      segment.address = view.address;
      segment.total_size = view.size;
      segment.is_small = view.small;
      segment.is_expandable = view.expandable;
      segment.blocks = {static_cast<std::uint32_t>(s.blocks.size()), static_cast<std::uint32_t>(view.blocks.size())};
      for (const allocator::BlockView& block : view.blocks) {
        const auto state = block.state == allocator::BlockState::kFree      ? snapshot::BlockState::kInactive
                           : block.state == allocator::BlockState::kPending ? snapshot::BlockState::kActivePendingFree
                                                                            : snapshot::BlockState::kActiveAllocated;
        s.blocks.push_back({block.address, block.size, block.requested, snapshot::kNoStack, state});
      }
      s.segments.push_back(segment);
    }
    s.device_segments = {0, static_cast<std::uint32_t>(s.segments.size())};
    return s;
  }

  [[nodiscard]] const allocator::CachingAllocator& allocator() const { return allocator_; }
  [[nodiscard]] std::size_t events() const { return snapshot_.events.count(); }

 private:
  class Watched final : public allocator::Driver {
   public:
    Watched(std::int64_t capacity, Recorder& recorder) : device_(capacity), recorder_(recorder) {}
    std::optional<allocator::Address> allocate(std::int64_t bytes) override {
      const auto address = device_.allocate(bytes);
      if (address) recorder_.event(snapshot::Action::kSegmentAlloc, *address, bytes);
      return address;
    }
    void release(allocator::Address address, std::int64_t bytes) override {
      device_.release(address, bytes);
      recorder_.event(snapshot::Action::kSegmentFree, address, bytes);
    }
    allocator::Address reserve_range(std::int64_t bytes) override { return device_.reserve_range(bytes); }
    void drop_range(allocator::Address address, std::int64_t bytes) override { device_.drop_range(address, bytes); }
    bool map(allocator::Address address, std::int64_t bytes) override {
      if (!device_.map(address, bytes)) return false;
      recorder_.event(snapshot::Action::kSegmentMap, address, bytes);
      return true;
    }
    void unmap(allocator::Address address, std::int64_t bytes) override {
      device_.unmap(address, bytes);
      recorder_.event(snapshot::Action::kSegmentUnmap, address, bytes);
    }
    [[nodiscard]] std::int64_t total() const override { return device_.total(); }
    [[nodiscard]] std::int64_t free_bytes() const { return device_.free_bytes(); }

   private:
    allocator::SimulatedDriver device_;
    Recorder& recorder_;
  };
  struct Live {
    allocator::BlockId block;
    std::int64_t bytes;
  };

  [[nodiscard]] std::int64_t now() const { return static_cast<std::int64_t>(snapshot_.events.count()) * 10; }
  std::uint32_t text(const std::string& string) {
    snapshot_.strings.push_back(string);
    return static_cast<std::uint32_t>(snapshot_.strings.size() - 1);
  }
  void event(snapshot::Action action, std::uint64_t address, std::int64_t size) {
    snapshot::Events& e = snapshot_.events;
    e.time_us.push_back(now());
    e.action.push_back(action);
    e.address.push_back(address);
    e.size.push_back(size);
    e.stream.push_back(0);
    e.stack.push_back(stack_);
  }

  snapshot::Snapshot snapshot_;
  Watched driver_;
  allocator::CachingAllocator allocator_;
  std::map<int, Live> live_;
  int last_ = 0;
  std::uint32_t stack_ = snapshot::kNoStack;
};

inline History history_of(const snapshot::Snapshot& snapshot) {
  auto history = read_history(snapshot, 0);
  EXPECT_TRUE(history) << to_string(history.error());
  return history ? *std::move(history) : History{};
}

inline allocator::Settings settings(std::string_view text) { return allocator::parse_settings(text).value(); }

}  // namespace plimsoll::replay::test
