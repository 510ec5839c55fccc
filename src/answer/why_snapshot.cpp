// SPDX-License-Identifier: Apache-2.0
#include "answer/why_snapshot.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "answer/ballot.h"
#include "answer/recording.h"
#include "base/bytes.h"
#include "replay/event_text.h"
#include "replay/leaks.h"
#include "replay/pinned.h"

namespace plimsoll::answer {

namespace {

// The innermost frame outside PyTorch: the line of the user's or the framework's code.
std::string line_of(const snapshot::Snapshot& snapshot, std::uint32_t stack) {
  if (stack == snapshot::kNoStack || stack >= snapshot.stacks.size()) return "without a stack";
  const snapshot::Range range = snapshot.stacks[stack];
  std::string first;
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const snapshot::Frame& frame = snapshot.frames[snapshot.stack_frames[range.first + i]];
    const std::string_view file = snapshot.text(frame.filename);
    if (file.empty() || file == "??" || !file.ends_with(".py")) continue;
    const std::string shown =
        fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1), frame.line, snapshot.text(frame.name));
    if (first.empty()) first = shown;
    if (file.find("/torch/") == std::string_view::npos) return shown;
  }
  return first.empty() ? "without a Python frame" : first;
}

std::vector<SnapshotHolder> sorted(const std::map<std::string, std::int64_t>& by_line) {
  std::vector<SnapshotHolder> holders;
  for (const auto& [line, bytes] : by_line) holders.push_back({bytes, line});
  std::stable_sort(holders.begin(), holders.end(),
                   [](const SnapshotHolder& a, const SnapshotHolder& b) { return a.bytes > b.bytes; });
  return holders;
}

// The state that tells most: that of the failure, else that of the dump, else that of the peak.
struct State {
  std::vector<allocator::SegmentView> segments;
  bool of_history = false;  // owners are objects of the history, else blocks of the snapshot
  const char* when = "at its end";
};
State state_of(const Recording& recording) {
  if (recording.history && recording.run.oom)
    return {recording.state_after(recording.run.oom->op), true, "when memory ran out"};
  if (!recording.snapshot->segments.empty()) return {final_segments(*recording.snapshot, recording.device), false};
  if (recording.history) return {recording.state_after(recording.run.peak_reserved_op), true, "when most was reserved"};
  return {};
}

void read_pieces(const Recording& recording, SnapshotEvidence& evidence) {
  const State state = state_of(recording);
  evidence.when = state.when;
  const auto made_at = [&](std::uint32_t owner) {
    return line_of(*recording.snapshot,
                   state.of_history ? recording.history->stack_of(owner) : recording.snapshot->blocks[owner].stack);
  };
  std::map<std::string, std::int64_t> holders;
  for (const allocator::SegmentView& segment : state.segments)
    for (const allocator::BlockView& block : segment.blocks)
      if (block.state == allocator::BlockState::kFree)
        evidence.largest_free = std::max(evidence.largest_free, block.size);
      else
        holders[made_at(block.owner)] += block.size;
  const replay::Pinned pinned = replay::find_pinned(state.segments, recording.recorded.settings);
  evidence.reserved = pinned.reserved;
  evidence.in_use = pinned.allocated;
  evidence.cached = pinned.reserved - pinned.allocated;
  evidence.pinned = pinned.idle;
  std::map<std::string, std::int64_t> pins;  // idle bytes by who keeps them: the largest holder of each segment
  for (const replay::PinnedSegment& segment : pinned.segments)
    if (!segment.holders.empty()) pins[made_at(segment.holders.front().object)] += segment.idle;
  evidence.pinned_by = sorted(pins);
  evidence.holders = sorted(holders);
}

// What grows from step to step, where the history holds enough of them.
void read_leaks(const Recording& recording, SnapshotEvidence& evidence) {
  constexpr std::size_t kFewestSteps = 3;
  if (!recording.history) return;
  const replay::Attribution attribution(*recording.history);
  const replay::LeakReport report = replay::find_leaks(*recording.history, attribution);
  if (report.steps < kFewestSteps) return;
  evidence.steps = report.steps;
  evidence.by_optimizer = report.by_optimizer;
  for (const replay::Leak& leak : report.leaks) {
    std::string origin = replay::stack_line(*recording.snapshot, leak.stack);
    if (origin.empty()) origin = fmt::format("objects of {}", format_bytes(leak.object_bytes));
    evidence.leaks.push_back({leak.per_step, leak.last - leak.first, std::move(origin)});
  }
}

std::string pins_text(const SnapshotEvidence& evidence) {
  if (evidence.pinned == 0 || evidence.pinned_by.empty()) return {};
  return fmt::format("{} of it cannot go back to the driver, most of that because of what was made at {}",
                     format_bytes(evidence.pinned), evidence.pinned_by.front().made_at);
}

bool in_pieces(const SnapshotEvidence& evidence, std::int64_t request) {
  return evidence.largest_free < request && evidence.cached >= request;
}

// Of what is held at most this much is noise of warm-up and caches.
bool is_large(const SnapshotLeak& leak, const SnapshotEvidence& evidence) { return leak.grown * 50 >= evidence.in_use; }

}  // namespace

Result<SnapshotEvidence> read_snapshot_evidence(const std::string& path) {
  PLIMSOLL_TRY(file, read_recording_file(path));
  if (!file.snapshot)
    return bad_input(fmt::format("{} holds counters, not a snapshot", path),
                     "torch.cuda.memory._dump_snapshot() writes one");
  PLIMSOLL_TRY(recording, load_recording(path, std::move(file.snapshot), {}));
  SnapshotEvidence evidence;
  evidence.path = path;
  read_pieces(recording, evidence);
  read_leaks(recording, evidence);
  return evidence;
}

void settle_by_snapshot(const SnapshotEvidence& evidence, why::Diagnosis& diagnosis) {
  using why::Cause;
  constexpr double kConfirmed = 0.93;
  if (!diagnosis.failure || diagnosis.resource != why::Resource::kDevice) return;
  // What speaks for another phase or another holder is no matter of pieces.
  const bool open = diagnosis.cause == Cause::kFragmentation || diagnosis.cause == Cause::kGenuineCapacity ||
                    diagnosis.cause == Cause::kActivationBound || diagnosis.cause == Cause::kFirstBackward ||
                    diagnosis.cause == Cause::kLongestBatch || diagnosis.cause == Cause::kMemoryLeak;
  if (!open) return;
  if (!evidence.leaks.empty() && is_large(evidence.leaks.front(), evidence)) {
    const SnapshotLeak& leak = evidence.leaks.front();
    put_first(diagnosis, Cause::kMemoryLeak, kConfirmed,
              fmt::format("the snapshot: {} more after each {}, made at {}", format_bytes(leak.per_step),
                          evidence.by_optimizer ? "step" : "part of its history", leak.made_at));
    return;
  }
  if (evidence.steps > 0)
    rule_out(diagnosis, Cause::kMemoryLeak, "the snapshot: nothing grows steadily from step to step");
  if (!diagnosis.numbers.request) return;
  const std::int64_t request = *diagnosis.numbers.request;
  if (in_pieces(evidence, request)) {
    const std::string pins = pins_text(evidence);
    put_first(diagnosis, Cause::kFragmentation, kConfirmed,
              fmt::format("the snapshot: no free piece holds {}, {} in pieces would have{}{}", format_bytes(request),
                          format_bytes(evidence.cached), pins.empty() ? "" : "; ", pins));
  } else if (evidence.cached < request) {
    rule_out(diagnosis, Cause::kFragmentation,
             fmt::format("the snapshot: all free pieces together are {}", format_bytes(evidence.cached)));
  }
}

std::vector<std::string> notes_of(const SnapshotEvidence& evidence, const why::Diagnosis& diagnosis) {
  constexpr std::size_t kMostShown = 2;
  std::vector<std::string> notes;
  notes.push_back(fmt::format("{}, {}: {} reserved, {} in use, {} cached, largest free piece {}", evidence.path,
                              evidence.when, format_bytes(evidence.reserved), format_bytes(evidence.in_use),
                              format_bytes(evidence.cached), format_bytes(evidence.largest_free)));
  if (diagnosis.numbers.request) {
    const std::int64_t request = *diagnosis.numbers.request;
    if (in_pieces(evidence, request))
      notes.push_back(fmt::format("no free piece holds {}, all of them together do: fragmentation is confirmed",
                                  format_bytes(request)));
    else if (evidence.cached < request)
      notes.push_back(
          fmt::format("all free pieces together are less than {}: not fragmentation", format_bytes(request)));
    else
      notes.emplace_back("a free piece is large enough: the snapshot was not taken when the request failed");
  }
  if (const std::string pins = pins_text(evidence); !pins.empty()) notes.push_back(fmt::format("cached: {}", pins));
  const char* unit = evidence.by_optimizer ? "optimizer steps" : "parts of the history";
  if (evidence.steps > 0 && evidence.leaks.empty())
    notes.push_back(fmt::format("the snapshot shows no leak: nothing grows steadily over {} {}", evidence.steps, unit));
  for (std::size_t i = 0; i < std::min(kMostShown, evidence.leaks.size()); ++i)
    notes.push_back(fmt::format("the snapshot shows a leak: {} more after each of {} {}, made at {}",
                                format_bytes(evidence.leaks[i].per_step), evidence.steps, unit,
                                evidence.leaks[i].made_at));
  for (std::size_t i = 0; i < evidence.holders.size() && i <= kMostShown; ++i)
    notes.push_back(fmt::format("{} made at {}", format_bytes(evidence.holders[i].bytes), evidence.holders[i].made_at));
  return notes;
}

}  // namespace plimsoll::answer
