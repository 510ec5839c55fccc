// SPDX-License-Identifier: Apache-2.0
// The collector's events: what failed, with what stood around it.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "why/collector.h"
#include "why/complaint.h"
#include "why/familiar.h"
#include "why/graph_node.h"
#include "why/purpose.h"
#include "why/text_hash.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostOfKind = 512;  // a flood of one kind must not keep another out
constexpr std::size_t kMostWorn = 4096;

int figures_in(const OomNumbers& oom) {
  return static_cast<int>(oom.request.has_value()) + static_cast<int>(oom.total.has_value()) +
         static_cast<int>(oom.free.has_value()) + static_cast<int>(oom.allocated.has_value()) +
         static_cast<int>(oom.reserved.has_value()) + static_cast<int>(oom.this_process.has_value()) +
         static_cast<int>(oom.reserved_unallocated.has_value());
}

}  // namespace

bool Collector::read_continuation(const Line& line, Stream& stream) {
  if (stream.continued_event < 0) return false;
  Event& event = findings_.events[static_cast<std::size_t>(stream.continued_event)];
  if (++stream.continuations > 4 || event.text.size() + line.text.size() > kMostText) {
    stream.continued_event = -1;
    return false;
  }
  const std::string joined = event.text + " " + std::string{line.text};
  const auto numbers = parse_oom_message(joined);
  if (!numbers || figures_in(*numbers) <= figures_in(event.signal.oom)) {
    stream.continued_event = -1;
    return false;
  }
  event.text = joined;
  event.signal.oom = *numbers;
  if (numbers->is_complete()) stream.continued_event = -1;
  return true;
}

void Collector::keep_error(const Line& line, SignalKind kind) {
  ++told_;
  // That a program failed says less than what it said before.
  constexpr std::int64_t kAfterWords = 12;  // lines
  if (kind == SignalKind::kExit && findings_.last_error && findings_.last_error->place.file == line.file &&
      line.number - findings_.last_error->place.line < kAfterWords)
    return;
  Event event;
  event.signal.kind = kind;
  event.signal.message = std::string{cut_text(line.text, 400)};
  event.place = {line.file, line.number};
  event.text = std::string{cut_text(line.text, kMostText)};
  event.rank = line.rank;
  event.order = line.order;
  event.steps_before = findings_.steps;
  event.attempt = findings_.attempt_ends.size();
  if (findings_.last_step >= 0) event.step = findings_.last_step;
  findings_.last_error = std::move(event);
}

void Collector::add_event(const Line& line, Signal signal, Stream& stream) {
  ++events_seen_;
  ++told_;
  const std::uint64_t words = words_hash(raw_);
  if (worn_.size() < kMostWorn || worn_.contains(words)) ++worn_[words];
  const std::uint64_t key = text_hash(line.text) * 31 + findings_.attempt_ends.size() * 65599 +
                            static_cast<std::uint64_t>(signal.kind) * 7 +
                            static_cast<std::uint64_t>(line.rank.value_or(-1) + 2) * 1000003ULL;
  std::set<int>& ranks = findings_.failing[signal.kind];
  if (const std::optional<int> rank = signal.named_rank ? signal.named_rank : line.rank;
      rank && ranks.size() < kMostRanks)
    ranks.insert(*rank);
  if (const auto known = event_keys_.find(key); known != event_keys_.end()) {
    ++findings_.events[known->second].count;
    if (stream.open) attach_frames(stream, static_cast<std::int64_t>(known->second));
    return;
  }
  if (findings_.events.size() >= kMostEvents || of_kind_[signal.kind] >= kMostOfKind) {
    stream.open = false;
    stream.frames.clear();
    return;
  }
  ++of_kind_[signal.kind];
  Event event;
  event.place = {line.file, line.number};
  event.text = std::string{cut_text(line.text, kMostText)};
  event.rank = signal.named_rank ? signal.named_rank : line.rank;
  event.order = line.order;
  event.clock = stream.clock;
  event.stream = line.stream;
  event.marker = marker_;
  event.marker_place = marker_place_;
  event.marker_text = marker_text_;
  event.bar_unfinished = marker_unfinished_;
  event.entered_loop = entered_loop_;
  event.steps_before = findings_.steps;
  event.attempt = findings_.attempt_ends.size();
  failed_since_step_ = failed_since_step_ || signal.kind != SignalKind::kPeerLost;
  if (findings_.last_step >= 0) event.step = findings_.last_step;
  if (elastic_rank_ && !event.rank && (signal.kind == SignalKind::kKilled || signal.kind == SignalKind::kAbort))
    event.rank = elastic_rank_;
  if (signal.kind == SignalKind::kDeviceOom || signal.kind == SignalKind::kUnclearMemory) {
    event.node = phase_of_graph_node(line.text).value_or(Phase::kUnknown);
    if (event.node == Phase::kUnknown && purpose_place_.file == line.file &&
        line.number - purpose_place_.line <= kNearLines)
      event.node = purpose_;
  }
  event.signal = std::move(signal);
  mention(line.text);
  findings_.events.push_back(std::move(event));
  const auto index = static_cast<std::int64_t>(findings_.events.size()) - 1;
  event_keys_.emplace(key, static_cast<std::size_t>(index));
  // Of a traceback that was cut only the last line of code may be left.
  if (stream.frames.empty() && line.number - stream.code_line <= 1 && !stream.code.empty()) {
    stream.frames.push_back({{}, {}, stream.code});
    stream.open = true;
  }
  stream.code.clear();
  if (stream.open && !stream.frames.empty())
    attach_frames(stream, index);
  else if (!goes_on_from_exception(line))
    stream.bare_event = index;
  stream.open = false;
  const Event& added = findings_.events.back();
  stream.continuations = 0;
  // Figures that are missing may stand in the next lines.
  const bool goes_on = (added.signal.oom.request && !added.signal.oom.is_complete()) ||
                       has_text(added.text, "would exceed allowed memory");
  stream.continued_event = added.signal.kind == SignalKind::kDeviceOom && goes_on ? index : -1;
}

// A message may go on in the line below its exception, and what failed stands only there: the traceback is its own.
bool Collector::goes_on_from_exception(const Line& line) {
  if (findings_.events.size() < 2) return false;
  Event& event = findings_.events.back();
  const Event& before = findings_.events[findings_.events.size() - 2];
  const bool follows = before.has_frames &&
                       (before.signal.kind == SignalKind::kException || before.signal.kind == SignalKind::kUnclear) &&
                       before.stream == line.stream && before.place.file == line.file &&
                       before.place.line + 1 == line.number;
  if (!follows || event.signal.kind != SignalKind::kDeviceOom) return false;
  event.frames = before.frames;
  event.has_frames = true;
  return true;
}

// What the buffer was for stands beside its refusal: in the caller's complaint that it has none, or before it.
void Collector::read_purpose(const Line& line) {
  const auto purpose = phase_of_purpose(line.text);
  if (!purpose) return;
  purpose_ = *purpose;
  purpose_place_ = {line.file, line.number};
  for (auto event = findings_.events.rbegin(); event != findings_.events.rend(); ++event) {
    if (event->place.file != line.file || line.number - event->place.line > kNearLines) return;
    const bool refusal =
        event->signal.kind == SignalKind::kDeviceOom || event->signal.kind == SignalKind::kUnclearMemory;
    if (refusal && event->node == Phase::kUnknown) event->node = *purpose;
  }
}

// What a call was refused for stands on the line before the complaint that nothing came of it.
void Collector::heed_reason(const Line& line, const Stream& stream, Signal& signal) {
  if (signal.kind != SignalKind::kSharedMemory && signal.kind != SignalKind::kDiskWrite) return;
  // "No space left" without a path is about what the next line names.
  if (!findings_.events.empty() && signal.kind == SignalKind::kSharedMemory) {
    Event& before = findings_.events.back();
    const bool near = before.place.file == line.file && line.number - before.place.line <= kNearLines;
    const auto error = parse_system_error(before.text);
    if (near && before.signal.kind == SignalKind::kDiskFull && error && error->path.empty()) before.signal = signal;
  }
  if (stream.reason_line < 0 || line.number - stream.reason_line > kNearLines) return;
  signal.kind = SignalKind::kException;
  signal.exception = "OSError";
  signal.message = stream.reason;
}

}  // namespace plimsoll::why
