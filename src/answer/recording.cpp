// SPDX-License-Identifier: Apache-2.0
#include "answer/recording.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "answer/captured_recording.h"
#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/usage.h"
#include "capture/capture.h"
#include "cluster/cluster.h"
#include "snapshot/memory_summary.h"
#include "snapshot/source.h"

namespace plimsoll::answer {

namespace {

// A source whose first bytes were looked at.
class PrefixedSource final : public snapshot::Source {
 public:
  PrefixedSource(std::string head, std::unique_ptr<snapshot::Source> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}

  Result<std::size_t> read(char* into, std::size_t room) override {
    if (interrupted()) return tl::make_unexpected(given_up());
    if (at_ == head_.size()) return rest_->read(into, room);
    const std::size_t count = std::min(room, head_.size() - at_);
    std::memcpy(into, head_.data() + at_, count);
    at_ += count;
    return count;
  }
  [[nodiscard]] std::size_t expected_size() const override { return rest_->expected_size(); }

 private:
  std::string head_;
  std::size_t at_ = 0;
  std::unique_ptr<snapshot::Source> rest_;
};

// What a process holds of a device outside PyTorch: an estimate (facts megatron-memory.md 10).
constexpr std::int64_t kContext = 512 * kMiB;

std::int64_t device_of(const snapshot::Snapshot& snapshot) {
  const std::int64_t busiest = replay::busiest_device(snapshot);
  if (busiest >= 0 || snapshot.device_segments.count == 0) return std::max<std::int64_t>(busiest, 0);
  return snapshot.segments[snapshot.device_segments.first].device;
}

// What is said of the device and the process.
Result<replay::KnownLimits> known_limits(const RecordingConditions& conditions, Recording& recording) {
  replay::KnownLimits known;
  if (!conditions.gpu.empty()) {
    PLIMSOLL_TRY(found, cluster::find_gpu(conditions.gpu));
    known.total = found.capacity;
    known.capacity = found.capacity - kContext;
  }
  if (conditions.capacity) {
    known.capacity = *conditions.capacity;
    if (known.total == 0) known.total = *conditions.capacity;
  }
  if (conditions.fraction) {
    if (known.total == 0)
      return usage_error("--fraction is a share of the whole device, which is not in a snapshot",
                         "say which one with --gpu h100-sxm-80gb or --capacity 80GiB");
    recording.surroundings.fraction = *conditions.fraction;
  }
  return known;
}

// The smallest GPU of the catalogue that holds what was reserved and free when memory ran out; a context and other
// processes take little beside that. 0 when none is near.
std::int64_t guess_device(Recording& recording) {
  const std::int64_t seen = recording.inferred->seen_on_device;
  constexpr double kMostBeside = 1.05;
  const cluster::Gpu* best = nullptr;
  for (const cluster::Gpu& gpu : cluster::catalog_gpus()) {
    if (gpu.architecture == cluster::Architecture::kOther) continue;  // PyTorch's recordings are of CUDA and HIP
    if (gpu.capacity < seen || static_cast<double>(gpu.capacity) > kMostBeside * static_cast<double>(seen)) continue;
    if (best == nullptr || gpu.capacity < best->capacity) best = &gpu;
  }
  if (best == nullptr) return 0;
  recording.warnings.push_back(fmt::format("the device is taken to be one {}: {} were seen on it; --gpu says otherwise",
                                           best->name, format_bytes(seen)));
  return best->capacity;
}

void warn_of_gaps(Recording& recording) {
  const replay::History& history = *recording.history;
  const snapshot::Trace& trace = recording.snapshot->devices[static_cast<std::size_t>(recording.device)];
  if (trace.overflowed.value_or(false))
    recording.warnings.emplace_back("the trace wrapped: PyTorch dropped older events");
  if (!history.starts_empty())
    recording.warnings.push_back(fmt::format(
        "the recording begins with {} objects already alive, or segments already there (it began late, or wrapped); "
        "that state is rebuilt from the final segments",
        history.initial.size()));
  if (history.overwritten > 0)
    recording.warnings.push_back(
        fmt::format("{} allocations lie where another is still alive: events are missing", history.overwritten));
}

}  // namespace

std::vector<allocator::SegmentView> final_segments(const snapshot::Snapshot& snapshot, std::int64_t device) {
  std::vector<allocator::SegmentView> segments;
  for (std::uint32_t s = 0; s < snapshot.device_segments.count; ++s) {
    const snapshot::Segment& segment = snapshot.segments[snapshot.device_segments.first + s];
    if (segment.device != device) continue;
    allocator::SegmentView view{
        segment.address, segment.total_size, segment.stream, 0, segment.is_small, segment.is_expandable, {}};
    for (std::uint32_t b = segment.blocks.first; b < segment.blocks.first + segment.blocks.count; ++b) {
      const snapshot::Block& block = snapshot.blocks[b];
      const allocator::BlockState state = block.state == snapshot::BlockState::kInactive ? allocator::BlockState::kFree
                                          : block.state == snapshot::BlockState::kActivePendingFree
                                              ? allocator::BlockState::kPending
                                              : allocator::BlockState::kAllocated;
      view.blocks.push_back({block.address, block.size, block.requested_size.value_or(block.size), state, b});
    }
    segments.push_back(std::move(view));
  }
  return segments;
}

std::vector<allocator::SegmentView> Recording::state_after(std::uint32_t op) const {
  if (!history) return final_segments(*snapshot, device);
  if (exact.exact()) return replay::exact_state_after(*history, recorded.settings, limits, op);
  return replay::state_after(*history, {recorded.settings, surroundings.capacity, surroundings.total}, op);
}

Result<RecordingFile> read_recording_file(const std::string& path, const std::string& gpu) {
  if (capture::is_capture(path)) {
    PLIMSOLL_TRY(captured, recording_of_capture(path, gpu));
    return RecordingFile{std::move(captured), {}};
  }
  PLIMSOLL_TRY(packed, snapshot::file_source(path));
  PLIMSOLL_TRY(source, snapshot::unpacked_source(std::move(packed), snapshot::InflateLimits{}));
  std::string head(4096, '\0');
  auto got = source->read(head.data(), head.size());
  if (!got) return tl::make_unexpected(std::move(got.error()).with_context(path));
  head.resize(*got);
  RecordingFile file;
  constexpr char kPickle = '\x80';
  if (head.empty() || head.front() == kPickle || head.find('\0') != std::string::npos) {
    PLIMSOLL_TRY(read,
                 snapshot::read_snapshot(path, std::make_unique<PrefixedSource>(std::move(head), std::move(source))));
    file.snapshot = std::make_unique<snapshot::Snapshot>(std::move(read));
    return file;
  }
  constexpr std::size_t kLargestText = std::size_t{64} << 20;
  std::string text = std::move(head);
  for (std::string piece(1 << 16, '\0'); text.size() <= kLargestText;) {
    auto more = source->read(piece.data(), piece.size());
    if (!more) return tl::make_unexpected(std::move(more.error()).with_context(path));
    if (*more == 0) break;
    text.append(piece, 0, *more);
  }
  if (text.size() > kLargestText)
    return bad_input(fmt::format("{} is text of more than 64 MiB; wanted a snapshot or a table of counters", path));
  if (snapshot::looks_like_memory_stats(text)) {
    PLIMSOLL_TRY(stats, snapshot::read_memory_stats(path, text));
    file.counters.push_back(std::move(stats));
    return file;
  }
  if (snapshot::looks_like_memory_summary(text)) {
    PLIMSOLL_TRY(tables, snapshot::read_memory_summaries(path, text));
    file.counters = std::move(tables);
    return file;
  }
  return bad_input(
      fmt::format("{} is neither a memory snapshot of PyTorch nor its memory_stats() or memory_summary()", path),
      "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") writes one");
}

Result<Recording> load_recording(const std::string& path, std::unique_ptr<snapshot::Snapshot> snapshot,
                                 const RecordingConditions& conditions, replay::Watcher* watcher) {
  Recording recording;
  recording.path = path;
  if (conditions.torch) recording.surroundings.torch = *conditions.torch;
  PLIMSOLL_TRY(known, known_limits(conditions, recording));
  recording.snapshot = std::move(snapshot);
  recording.device = conditions.device.value_or(device_of(*recording.snapshot));
  recording.recorded = replay::recorded_settings(*recording.snapshot, recording.surroundings.torch);
  recording.warnings = recording.recorded.notes;
  if (!recording.recorded.settings.fraction) recording.recorded.settings.fraction = recording.surroundings.fraction;
  recording.surroundings.total = known.total;
  if (known.capacity > 0) recording.surroundings.capacity = known.capacity;
  if (!recording.snapshot->has_history()) return recording;

  auto history = replay::read_history(*recording.snapshot, recording.device);
  if (!history) return tl::make_unexpected(std::move(history.error()).with_context(path));
  recording.history = *std::move(history);
  recording.inferred = replay::infer_limit(*recording.history, recording.recorded.settings);
  if (known.total == 0 && recording.inferred) known.total = guess_device(recording);
  recording.limits = replay::recorded_limits(known, recording.inferred);
  if (known.capacity == 0 && recording.inferred && !recording.recorded.settings.fraction)
    recording.surroundings.capacity = recording.inferred->high - 1;
  recording.surroundings.total = recording.limits.total;
  recording.exact = replay::replay_exactly(*recording.history, recording.recorded.settings, recording.limits, watcher);
  replay::insert_empty_caches(*recording.history, recording.exact);
  recording.run =
      recording.exact.exact()
          ? recording.exact.run
          : replay::run(*recording.history,
                        {recording.recorded.settings, recording.surroundings.capacity, recording.surroundings.total},
                        watcher);
  if (interrupted()) return tl::make_unexpected(given_up());
  warn_of_gaps(recording);
  return recording;
}

}  // namespace plimsoll::answer
