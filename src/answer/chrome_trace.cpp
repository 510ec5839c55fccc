// SPDX-License-Identifier: Apache-2.0
#include "answer/chrome_trace.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "answer/json.h"
#include "base/bytes.h"
#include "replay/event_text.h"

namespace plimsoll::answer {

namespace {

constexpr std::size_t kMostSlices = 4000;       // objects, the largest
constexpr std::size_t kMostCounters = 400'000;  // beyond that a viewer is slow; the highest of a stretch is kept

class Writer {
 public:
  Writer(std::FILE* file, const replay::History& history)
      : file_(file), history_(history), snapshot_(*history.snapshot) {
    const std::int64_t first = history.events.count > 0 ? snapshot_.events.time_us[history.events.first] : 0;
    start_ = std::max<std::int64_t>(first, 0);
    timed_ = first != snapshot::kNoTime;
  }

  void write() {
    put(R"({"displayTimeUnit":"ms","traceEvents":[)");
    put(R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"GPU memory"}})");
    counters();
    slices();
    annotations();
    put("\n]}\n");
  }

 private:
  void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), file_); }

  // Microseconds since the first event, or its number where times were not recorded.
  [[nodiscard]] std::int64_t time_of(std::uint32_t event) const {
    return timed_ ? std::max<std::int64_t>(snapshot_.events.time_us[event] - start_, 0) : event - history_.events.first;
  }

  void counters() {
    const snapshot::Events& events = snapshot_.events;
    const std::uint32_t end = history_.events.first + history_.events.count;
    const std::size_t stride = history_.events.count / kMostCounters + 1;
    std::int64_t requested = 0;
    std::int64_t reserved = 0;
    for (const replay::Initial& initial : history_.initial) requested += initial.requested;
    for (const allocator::SegmentView& segment : history_.start) reserved += segment.size;
    std::int64_t highest_requested = 0;
    std::int64_t highest_reserved = 0;
    for (std::uint32_t event = history_.events.first; event < end; ++event) {
      switch (events.action[event]) {
        case snapshot::Action::kAlloc:
          requested += events.size[event];
          break;
        case snapshot::Action::kFreeCompleted:
          requested -= events.size[event];
          break;
        case snapshot::Action::kSegmentAlloc:
        case snapshot::Action::kSegmentMap:
          reserved += events.size[event];
          break;
        case snapshot::Action::kSegmentFree:
        case snapshot::Action::kSegmentUnmap:
          reserved -= events.size[event];
          break;
        case snapshot::Action::kOom:
          put(
              fmt::format(",\n"
                          R"({{"ph":"i","pid":1,"tid":1,"s":"g","ts":{},"name":"out of memory: {}"}})",
                          time_of(event), format_bytes(events.size[event])));
          break;
        default:
          break;
      }
      highest_requested = std::max(highest_requested, requested);
      highest_reserved = std::max(highest_reserved, reserved);
      if ((event - history_.events.first) % stride != 0 && event + 1 != end) continue;
      put(
          fmt::format(",\n"
                      R"({{"ph":"C","pid":1,"ts":{},"name":"requested","args":{{"bytes":{}}}}})",
                      time_of(event), highest_requested));
      put(
          fmt::format(",\n"
                      R"({{"ph":"C","pid":1,"ts":{},"name":"reserved","args":{{"bytes":{}}}}})",
                      time_of(event), highest_reserved));
      highest_requested = requested;
      highest_reserved = reserved;
    }
  }

  void slices() {
    std::vector<std::uint32_t> objects(history_.objects.size());
    for (std::uint32_t i = 0; i < objects.size(); ++i) objects[i] = i;
    const std::size_t kept = std::min(kMostSlices, objects.size());
    std::partial_sort(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(kept), objects.end(),
                      [this](std::uint32_t a, std::uint32_t b) { return history_.bytes_of(a) > history_.bytes_of(b); });
    const std::uint32_t last = history_.events.first + history_.events.count - 1;
    for (std::size_t i = 0; i < kept; ++i) {
      const replay::Object& object = history_.objects[objects[i]];
      const std::string line = replay::stack_line(snapshot_, history_.stack_of(objects[i]));
      const std::string name = json_quoted(
          fmt::format("{} {}", format_bytes(history_.bytes_of(objects[i])), line.empty() ? "no stack" : line));
      const std::uint32_t birth = object.birth == replay::kNever ? history_.events.first : object.birth;
      const std::uint32_t death = object.death == replay::kNever ? last : object.death;
      for (const auto& [phase, event] : {std::pair{'b', birth}, std::pair{'e', death}})
        put(
            fmt::format(",\n"
                        R"({{"ph":"{}","cat":"object","pid":1,"tid":1,"id":{},"ts":{},"name":{}}})",
                        phase, objects[i], time_of(event), name));
    }
  }

  void annotations() {
    if (!timed_) return;
    for (const snapshot::Annotation& note : snapshot_.annotations) {
      if (note.device != history_.device || note.time_us < start_) continue;
      put(
          fmt::format(",\n"
                      R"({{"ph":"{}","pid":1,"tid":2,"ts":{},"name":{}}})",
                      note.is_start ? 'B' : 'E', note.time_us - start_, json_quoted(snapshot_.text(note.name))));
    }
  }

  std::FILE* file_;
  const replay::History& history_;
  const snapshot::Snapshot& snapshot_;
  std::int64_t start_ = 0;
  bool timed_ = true;
};

}  // namespace

Status write_chrome_trace(const std::string& path, const replay::History& history, Existing existing) {
  return write_streamed(path, [&history](std::FILE* file) { Writer(file, history).write(); }, existing);
}

}  // namespace plimsoll::answer
