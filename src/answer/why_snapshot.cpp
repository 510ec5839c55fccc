// SPDX-License-Identifier: Apache-2.0
#include "answer/why_snapshot.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "replay/attribution.h"
#include "replay/event_text.h"
#include "replay/history.h"
#include "replay/leaks.h"
#include "snapshot/snapshot.h"

namespace plimsoll::answer {

namespace {

// The innermost frame outside PyTorch: the line of the user's or the framework's code.
std::string holder(const snapshot::Snapshot& snapshot, std::uint32_t stack) {
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

// What grows from step to step, where the snapshot holds a history of at least five steps.
void add_leaks(const snapshot::Snapshot& snapshot, std::vector<std::string>& notes) {
  constexpr std::size_t kMostShown = 2;
  constexpr std::size_t kFewestSteps = 3;
  const std::int64_t device = replay::busiest_device(snapshot);
  if (device < 0) return;
  const auto history = replay::read_history(snapshot, device);
  if (!history) return;  // one that cannot be read: the segments above still hold
  const replay::Attribution attribution(*history);
  const replay::LeakReport report = replay::find_leaks(*history, attribution);
  if (report.steps < kFewestSteps) return;
  const char* unit = report.by_optimizer ? "optimizer steps" : "parts of the history";
  if (report.leaks.empty())
    notes.push_back(fmt::format("the snapshot shows no leak: nothing grows steadily over {} {}", report.steps, unit));
  for (std::size_t i = 0; i < std::min(kMostShown, report.leaks.size()); ++i) {
    const replay::Leak& leak = report.leaks[i];
    std::string origin = replay::stack_line(snapshot, leak.stack);
    if (origin.empty()) origin = fmt::format("objects of {}", format_bytes(leak.object_bytes));
    notes.push_back(fmt::format("the snapshot shows a leak: {} more after each of {} {}, made at {}",
                                format_bytes(leak.per_step), report.steps, unit, origin));
  }
}

}  // namespace

Result<std::vector<std::string>> snapshot_notes(const std::string& path, const why::Diagnosis& diagnosis) {
  constexpr std::int64_t kMostSnapshot = std::int64_t{4} << 30;
  PLIMSOLL_TRY(bytes, read_file(path, kMostSnapshot));
  PLIMSOLL_TRY(snapshot, snapshot::read_snapshot(path, bytes));
  std::int64_t reserved = 0;
  std::int64_t active = 0;
  std::int64_t largest = 0;
  std::map<std::string, std::int64_t> holders;
  for (std::uint32_t i = 0; i < snapshot.device_segments.count; ++i) {
    const snapshot::Segment& segment = snapshot.segments[snapshot.device_segments.first + i];
    reserved += segment.total_size;
    for (std::uint32_t k = 0; k < segment.blocks.count; ++k) {
      const snapshot::Block& block = snapshot.blocks[segment.blocks.first + k];
      if (block.state == snapshot::BlockState::kInactive) {
        largest = std::max(largest, block.size);
        continue;
      }
      active += block.size;
      holders[holder(snapshot, block.stack)] += block.size;
    }
  }
  std::vector<std::string> notes;
  notes.push_back(fmt::format("{}: {} reserved, {} in use, {} cached, largest free piece {}", path,
                              format_bytes(reserved), format_bytes(active), format_bytes(reserved - active),
                              format_bytes(largest)));
  if (diagnosis.numbers.request) {
    const std::int64_t request = *diagnosis.numbers.request;
    const std::int64_t cached = reserved - active;
    if (largest < request && cached >= request)
      notes.push_back(fmt::format("no free piece holds {}, all of them together do: fragmentation is confirmed",
                                  format_bytes(request)));
    else if (cached < request)
      notes.push_back(
          fmt::format("all free pieces together are less than {}: not fragmentation", format_bytes(request)));
    else
      notes.push_back("a free piece is large enough: the snapshot was not taken when the request failed");
  }
  add_leaks(snapshot, notes);
  std::vector<std::pair<std::string, std::int64_t>> largest_holders(holders.begin(), holders.end());
  std::sort(largest_holders.begin(), largest_holders.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  for (std::size_t i = 0; i < largest_holders.size() && i < 3; ++i)
    notes.push_back(fmt::format("{} made at {}", format_bytes(largest_holders[i].second), largest_holders[i].first));
  return notes;
}

}  // namespace plimsoll::answer
