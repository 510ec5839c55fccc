// SPDX-License-Identifier: Apache-2.0
#include "answer/captured_recording.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "allocator/caching.h"
#include "capture/answer.h"
#include "capture/capture.h"
#include "cluster/cluster.h"
#include "step/tape.h"

namespace plimsoll::answer {

namespace {

using snapshot::Action;
using snapshot::Snapshot;

// The columns of a history while it is written.
class Writer {
 public:
  Writer() {
    snapshot_->settings = snapshot::AllocatorSettings{};
    snapshot_->settings->conf = "";
    for (int stream = 0; stream < step::kStreams; ++stream)
      snapshot_->streams.push_back(static_cast<std::uint64_t>(stream));
    snapshot_->stacks.push_back({});
  }

  void at(std::uint32_t stream, std::uint32_t stack) {
    stream_ = stream;
    stack_ = stack;
  }
  void event(Action action, std::uint64_t address, std::int64_t size) {
    snapshot::Events& e = snapshot_->events;
    e.action.push_back(action);
    e.address.push_back(address);
    e.size.push_back(size);
    e.stream.push_back(stream_);
    e.time_us.push_back(snapshot::kNoTime);
    e.stack.push_back(stack_);
  }
  // What the last event's tensor is for, in the words of files made from PyTorch's profiler.
  void is_for(std::string_view category) {
    if (category.empty()) return;
    snapshot::Origin origin;
    origin.event = static_cast<std::uint32_t>(snapshot_->events.count() - 1);
    origin.category = text(category);
    snapshot_->origins.push_back(origin);
  }
  // The operation in its module, in its phase.
  std::uint32_t stack(const std::string& operation, const std::string& place, std::string_view phase) {
    const auto [known, is_new] = stacks_.try_emplace({operation, place, phase}, 0);
    if (!is_new) return known->second;
    const auto first = static_cast<std::uint32_t>(snapshot_->stack_frames.size());
    std::uint32_t count = 0;
    const auto add = [&](std::string_view name, std::string_view file) {
      snapshot_->frames.push_back({text(name), text(file), 0});
      snapshot_->stack_frames.push_back(static_cast<std::uint32_t>(snapshot_->frames.size() - 1));
      ++count;
    };
    if (!operation.empty()) add(operation, place.empty() ? phase : std::string_view(place));
    if (!place.empty()) add(place, phase);
    add(phase, "step");
    snapshot_->stacks.push_back({first, count});
    return known->second = static_cast<std::uint32_t>(snapshot_->stacks.size() - 1);
  }
  // With the segments that are left.
  std::unique_ptr<Snapshot> finish(const std::vector<allocator::SegmentView>& left) {
    Snapshot& s = *snapshot_;
    s.devices.push_back({{0, static_cast<std::uint32_t>(s.events.count())}, {}, {}});
    for (const allocator::SegmentView& view : left) {
      snapshot::Segment segment;
      segment.address = view.address;
      segment.total_size = view.size;
      segment.stream = view.stream;
      segment.is_small = view.small;
      segment.is_expandable = view.expandable;
      segment.blocks = {static_cast<std::uint32_t>(s.blocks.size()), static_cast<std::uint32_t>(view.blocks.size())};
      for (const allocator::BlockView& block : view.blocks) {
        const bool is_free = block.state == allocator::BlockState::kFree;
        const auto state = is_free ? snapshot::BlockState::kInactive : snapshot::BlockState::kActiveAllocated;
        segment.allocated_size += is_free ? 0 : block.size;
        s.blocks.push_back({block.address, block.size, block.requested, snapshot::kNoStack, state});
      }
      segment.active_size = segment.allocated_size;
      s.segments.push_back(segment);
    }
    s.device_segments = {0, static_cast<std::uint32_t>(s.segments.size())};
    return std::move(snapshot_);
  }

 private:
  std::uint32_t text(std::string_view string) {
    const auto [known, is_new] =
        strings_.try_emplace(std::string(string), static_cast<std::uint32_t>(snapshot_->strings.size()));
    if (is_new) snapshot_->strings.emplace_back(string);
    return known->second;
  }

  std::unique_ptr<Snapshot> snapshot_ = std::make_unique<Snapshot>();
  std::map<std::tuple<std::string, std::string, std::string_view>, std::uint32_t> stacks_;
  std::map<std::string, std::uint32_t> strings_;
  std::uint32_t stream_ = 0;
  std::uint32_t stack_ = snapshot::kNoStack;
};

// A device with room for any step, whose calls are events.
class NotedDriver final : public allocator::Driver {
 public:
  explicit NotedDriver(Writer& writer) : writer_(writer) {}
  std::optional<allocator::Address> allocate(std::int64_t bytes) override {
    const auto address = device_.allocate(bytes);
    if (address) writer_.event(Action::kSegmentAlloc, *address, bytes);
    return address;
  }
  void release(allocator::Address address, std::int64_t bytes) override {
    device_.release(address, bytes);
    writer_.event(Action::kSegmentFree, address, bytes);
  }
  allocator::Address reserve_range(std::int64_t bytes) override { return device_.reserve_range(bytes); }
  void drop_range(allocator::Address address, std::int64_t bytes) override { device_.drop_range(address, bytes); }
  bool map(allocator::Address address, std::int64_t bytes) override { return device_.map(address, bytes); }
  void unmap(allocator::Address address, std::int64_t bytes) override { device_.unmap(address, bytes); }
  [[nodiscard]] std::int64_t total() const override { return device_.total(); }

 private:
  static constexpr std::int64_t kEndless = std::int64_t{1} << 55;
  allocator::SimulatedDriver device_{kEndless};
  Writer& writer_;
};

std::string_view purpose_of(step::Name name) {
  switch (step::category_of(name)) {
    case step::Category::kParameters:
      return "PARAMETER";
    case step::Category::kGradients:
      return "GRADIENT";
    case step::Category::kOptimizer:
      return "OPTIMIZER_STATE";
    case step::Category::kActivations:
      return "ACTIVATION";
    case step::Category::kTemporaries:
      return "TEMPORARY";
    case step::Category::kWorkspaces:
    case step::Category::kCommunication:
      break;
  }
  return {};
}

struct Live {
  allocator::BlockId block = allocator::kNoBlock;
  std::int64_t requested = 0;
};

std::unique_ptr<Snapshot> write_history(const capture::Capture& step, const capture::Recorded& recorded) {
  Writer writer;
  NotedDriver driver(writer);
  allocator::CachingAllocator allocator(allocator::Settings{}, driver);
  std::vector<std::uint32_t> streams;
  for (int stream = 0; stream < step::kStreams; ++stream)
    streams.push_back(allocator.add_stream(static_cast<std::uint64_t>(stream)));
  const step::Tape& tape = recorded.tape;
  const std::vector<step::Mark>& marks = tape.marks();
  std::vector<Live> live(tape.tensors());
  std::size_t next_mark = 0;
  step::Moment now;
  step::Tape::Cursor cursor;
  tape.follow(cursor, tape.size(), [&](const step::Event& event, std::uint32_t id) {
    for (; next_mark < marks.size() && marks[next_mark].event <= cursor.event; ++next_mark) {
      now = marks[next_mark].moment;
      if (marks[next_mark].empties_cache) allocator.release_cached();
    }
    const capture::Origin origin = capture::origin_of(step, recorded.makers, id);
    writer.at(static_cast<std::uint32_t>(event.stream),
              writer.stack(origin.operation, origin.place, step::text_of(now.phase)));
    if (event.bytes > 0) {
      const auto block = allocator.allocate({event.requested, streams[static_cast<std::size_t>(event.stream)]});
      if (!block) return false;
      live[id] = {*block, event.requested};
      writer.event(Action::kAlloc, allocator.address(*block), event.requested);
      writer.is_for(purpose_of(event.name));
    } else if (event.bytes < 0) {
      const std::uint64_t address = allocator.address(live[id].block);
      writer.event(Action::kFreeRequested, address, live[id].requested);
      writer.event(Action::kFreeCompleted, address, live[id].requested);
      allocator.free(live[id].block);
    }
    return true;
  });
  return writer.finish(allocator.segments());
}

// A part whose kernels are those of this compute capability, times ten.
std::string_view typical_gpu(std::int64_t capability) {
  constexpr std::int64_t kHopper = 90;
  constexpr std::int64_t kBlackwell = 100;
  if (capability >= kBlackwell) return "b200";
  return capability >= kHopper ? "h100-sxm-80gb" : "a100-sxm-80gb";
}

}  // namespace

Result<std::unique_ptr<Snapshot>> recording_of_capture(const std::string& path, const std::string& gpu) {
  PLIMSOLL_TRY(step, capture::read_capture(path));
  PLIMSOLL_TRY(device, cluster::find_gpu(gpu.empty() ? typical_gpu(step.capability) : std::string_view(gpu)));
  return write_history(step, capture::record_on(step, device));
}

}  // namespace plimsoll::answer
