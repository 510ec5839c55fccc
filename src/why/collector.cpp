// SPDX-License-Identifier: Apache-2.0
#include "why/collector.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "why/batch.h"
#include "why/complaint.h"
#include "why/familiar.h"
#include "why/graph_node.h"
#include "why/purpose.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostStreams = 16384;
constexpr std::size_t kMostOfKind = 512;  // a flood of one kind must not keep another out
constexpr std::size_t kMostRanks = 65536;
constexpr std::size_t kMostPoints = 2048;
constexpr std::size_t kMostSeries = 1024;
constexpr std::size_t kLongestSegment = 16384;
constexpr std::int64_t kOften = 8192;  // enough to have heard every rank of a large job
constexpr std::size_t kMostWorn = 4096;
constexpr std::int64_t kEveryBar = 1024;  // bars are redrawn many times a second: of the later ones a few will do
constexpr std::int64_t kFewBars = 16;
constexpr std::int64_t kManyLines = 20000;  // settings stand at the beginning
constexpr std::size_t kLongestOption = 4000;
constexpr std::int64_t kNear = 3;  // lines that speak of one thing

bool has(Topics topics, Topic topic) { return (topics & bit(topic)) != 0; }

std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

int figures_in(const OomNumbers& oom) {
  return static_cast<int>(oom.request.has_value()) + static_cast<int>(oom.total.has_value()) +
         static_cast<int>(oom.free.has_value()) + static_cast<int>(oom.allocated.has_value()) +
         static_cast<int>(oom.reserved.has_value()) + static_cast<int>(oom.this_process.has_value()) +
         static_cast<int>(oom.reserved_unallocated.has_value());
}

// Keeps the number of open tracebacks true however the reading of a line ends.
class OpenCount {
 public:
  OpenCount(const bool& open, std::int64_t& count) : open_(open), count_(count), was_(open) {}
  OpenCount(const OpenCount&) = delete;
  OpenCount& operator=(const OpenCount&) = delete;
  ~OpenCount() { count_ += static_cast<int>(open_) - static_cast<int>(was_); }

 private:
  const bool& open_;
  std::int64_t& count_;
  bool was_;
};

}  // namespace

void Collector::begin_file(std::string name, std::optional<int> rank) {
  findings_.files.push_back({std::move(name), rank, 0, 0, {}});
  // A marker of one file says nothing about the next.
  marker_ = Phase::kUnknown;
  marker_text_.clear();
  marker_unfinished_ = false;
  in_config_ = false;
}

void Collector::end_file(std::int64_t bytes, std::int64_t lines, std::string damage, bool is_sampled) {
  findings_.files.back().is_sampled = is_sampled;
  findings_.files.back().bytes = bytes;
  findings_.files.back().lines = lines;
  findings_.files.back().damage = std::move(damage);
}

Collector::Stream& Collector::stream_of(std::uint64_t id) {
  if (streams_.size() >= kMostStreams && !streams_.contains(id)) id %= kMostStreams;
  return streams_[id];
}

void Collector::add_line(std::string_view raw, std::int64_t number) {
  // A structured log holds the line, or several, in one field.
  if (const auto message = structured_message(raw)) {
    std::string_view rest = *message;
    while (true) {
      const std::size_t end = rest.find('\n');
      add_drawings(rest.substr(0, end), number);
      if (end == kNone) return;
      rest.remove_prefix(end + 1);
    }
  }
  add_drawings(raw, number);
}

void Collector::add_drawings(std::string_view raw, std::int64_t number) {
  // A progress bar is redrawn on one line; each drawing is read by itself.
  while (true) {
    const std::size_t end = raw.find('\r');
    std::string_view segment = raw.substr(0, end);
    if (segment.size() > kLongestSegment) {
      read_segment(segment.substr(0, kLongestSegment), number);
      segment = segment.substr(segment.size() - kLongestSegment);
    }
    if (!segment.empty()) read_segment(segment, number);
    if (end == kNone) return;
    raw.remove_prefix(end + 1);
  }
}

bool Collector::is_worn_out(std::uint64_t words) const {
  if (events_seen_ <= kOften || open_streams_ > 0) return false;
  const auto found = worn_.find(words);
  return found != worn_.end() && found->second > kOften;
}

void Collector::read_segment(std::string_view raw, std::int64_t number) {
  if (events_seen_ > kOften && is_worn_out(words_hash(raw))) return;
  raw_ = raw;
  Line line;
  line.file = static_cast<std::uint32_t>(findings_.files.size() - 1);
  line.number = number;
  line.order = ++order_;
  line.rank = findings_.files.back().rank;
  clean_line(raw, scratch_, line);
  if (line.rank) findings_.most_rank = std::max(findings_.most_rank, *line.rank);
  strip_host(line);
  strip_pytest(line);
  if (line.text.empty()) return;
  Stream& stream = stream_of(line.stream);
  const OpenCount counted(stream.open, open_streams_);
  if (line.clock.kind != Clock::Kind::kNone) stream.clock = line.clock;
  const Topics topics = log_scanner().topics(scratch_);
  if (order_ < kManyLines && line.text.size() < kLongestOption && !findings_.figures.contains("batch"))
    if (const auto batch = batch_in(line.text)) findings_.figures["batch"] = *batch;
  // A bar without a newline swallows the beginning of what comes after it.
  std::size_t bar_end = line.text.rfind("it/s]");
  if (bar_end == kNone) bar_end = line.text.rfind("s/it]");
  if (bar_end != kNone && bar_end + 5 < line.text.size()) {
    const std::string whole{line.text};
    read_progress(line, topics);
    line.text = std::string_view{whole}.substr(bar_end + 5);
    if (line.text.starts_with("[A")) line.text.remove_prefix(2);
    std::string rest = "\n" + std::string{trim(line.text)} + "\n";
    line.text = trim(std::string_view{rest});
    if (line.text.empty()) return;
    const Topics own = log_scanner().topics(rest);
    if (read_traceback(line, stream)) return;
    if (auto signal = recognise(line, own, stream.open, rules_)) {
      read_elastic(line);
      add_event(line, *std::move(signal), stream);
    }
    return;
  }
  if (read_traceback(line, stream) || read_node(line) || read_native_frame(line) || read_continuation(line, stream) ||
      read_message_below(line)) {
    ++told_;
    return;
  }
  if (topics != 0 && has_any(line.text, {"fail", "unable", "cannot", "raises", "error"})) read_purpose(line);
  // The loop's answer to the message above it.
  if (stream.bare_event >= 0 && line.text.size() < 60 && has_text(line.text, "skipping batch")) {
    Event& event = findings_.events[static_cast<std::size_t>(stream.bare_event)];
    if (event.signal.kind == SignalKind::kDeviceOom) event.signal.kind = SignalKind::kSkippedBatch;
    return;
  }
  if (topics != 0 && names_other_reason(line.text)) {
    stream.reason_line = line.number;
    stream.reason = std::string{cut_text(line.text, 400)};
  }
  if (topics != 0 || stream.open || line.text.size() < 24)
    if (auto signal = recognise(line, topics, stream.open, rules_)) {
      heed_reason(line, stream, *signal);
      if (has(topics, Topic::kElastic) || has(topics, Topic::kKill)) read_elastic(line);
      if (has(topics, Topic::kServing)) read_serving(line);
      add_event(line, *std::move(signal), stream);
      return;
    }
  // A launcher's exception ends its own traceback and says nothing else.
  if (stream.open && line.indent == 0 && parse_exception(line.text)) {
    stream.open = false;
    stream.frames.clear();
  }
  if (const auto kind = reports_error(line)) keep_error(line, *kind);
  if (line.indent >= 4 && line.text.size() < 300 && line.text.find('(') != kNone && line.text.find(')') != kNone) {
    stream.code = std::string{line.text};
    stream.code_line = line.number;
  }
  read_facts(line, topics);
  read_progress(line, topics);
}

// pytest shows what was raised as "E       ValueError: text", and a child's traceback the same way.
void Collector::strip_pytest(Line& line) {
  if (!line.text.starts_with("E   ")) return;
  std::string_view rest = line.text.substr(1);
  line.indent = 0;
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  if (rest.starts_with("File \"")) line.indent = 2;
  line.text = rest;
}

// "worker-1: Traceback (most recent call last):" shows the name that every line of that node begins with.
void Collector::strip_host(Line& line) {
  constexpr std::size_t kLongestHost = 64;
  constexpr std::size_t kMostHosts = 4096;
  const std::size_t colon = line.text.find(':');
  if (colon >= kLongestHost || colon == 0) return;
  std::string_view rest = line.text.substr(colon + 1);
  const bool begins = trim(rest).starts_with("Traceback (most recent call last)");
  if (hosts_.empty() && !begins) return;
  const std::string host{line.text.substr(0, colon)};
  if (begins && hosts_.size() < kMostHosts && host.find(' ') == std::string::npos) hosts_.insert(host);
  if (!hosts_.contains(host)) return;
  line.indent = -1;  // the blank after the colon
  while (!rest.empty() && is_blank(rest.front())) {
    rest.remove_prefix(1);
    ++line.indent;
  }
  line.text = rest;
  line.stream ^= text_hash(host);
}

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
    if (event.node == Phase::kUnknown && purpose_place_.file == line.file && line.number - purpose_place_.line <= kNear)
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
    if (event->place.file != line.file || line.number - event->place.line > kNear) return;
    const bool refusal =
        event->signal.kind == SignalKind::kDeviceOom || event->signal.kind == SignalKind::kUnclearMemory;
    if (refusal && event->node == Phase::kUnknown) event->node = *purpose;
  }
}

void Collector::set_marker(Phase phase, const Line& line, bool unfinished) {
  if (marker_ != phase && phase != Phase::kTrain) ++told_;  // that steps go on is no news
  marker_ = phase;
  marker_place_ = {line.file, line.number};
  marker_text_ = std::string{cut_text(line.text, 200)};
  marker_unfinished_ = unfinished;
}

void Collector::read_progress(const Line& line, Topics topics) {
  const std::string_view text = line.text;
  if (const auto bar = parse_bar(text)) {
    const Phase phase = phase_of_bar(*bar);
    if (phase == Phase::kTrain) {
      // A bar at zero says that the loop was entered, not that a step was done.
      entered_loop_ = true;
      if (bar->at > 0) add_step(line, step_of_bar(*bar, text, ++bars_ < kEveryBar || bars_ % kFewBars == 0));
      if (bar->at > 0 || marker_ == Phase::kLoad || marker_ == Phase::kUnknown)
        set_marker(Phase::kTrain, line, bar->is_unfinished());
    } else {
      set_marker(phase, line, bar->is_unfinished());
    }
    return;
  }
  // Batches that are evaluated are no steps of the training.
  if (counts_evaluation(text)) {
    set_marker(Phase::kEvaluate, line, true);
    return;
  }
  if (has(topics, Topic::kMarker)) {
    if (has_any(text, {"train_runtime", "training complete", "training finished", "training done"}))
      findings_.finished = true;
    const Phase phase = phase_of_marker(text);
    if (phase != Phase::kUnknown) set_marker(phase, line, false);
    // Ray prints late what several workers said: it was said before the failure that stands above it.
    if (phase != Phase::kUnknown && has_text(text, "across cluster"))
      for (auto event = findings_.events.rbegin(); event != findings_.events.rend(); ++event) {
        if (event->place.file != line.file || line.number - event->place.line > 2 * kNear) break;
        if (event->marker == Phase::kUnknown) event->marker = phase;
      }
    if (has_any(text, {"cuda graph", "cudagraph"}) && !has_any(text, {"disabled", "not ", "without", "warning:"}) &&
        !findings_.graphs_place) {
      findings_.graphs_place = Place{line.file, line.number};
      findings_.graphs_text = std::string{cut_text(text, 200)};
    }
    if (has_any(text, {"rollout", "wake_up", "waking", "sleep mode"})) findings_.engine_in_trainer = true;
  }
  if (const auto step = parse_step(text)) add_step(line, *step);
}

void Collector::add_step(const Line& line, const StepLine& step) {
  entered_loop_ = entered_loop_ || step.is_start;
  const bool counts = step.step.has_value() || step.memory.empty() || step.has_loss;
  const std::int64_t index = step.step.value_or(-1);
  if (counts && !step.is_start) {
    // Steps that begin again after a failure are those of a restart.
    if (failed_since_step_ && step.step && index <= findings_.last_step && findings_.attempt_ends.size() < 256)
      findings_.attempt_ends.push_back(findings_.steps);
    failed_since_step_ = false;
    if (!step.step || index != findings_.last_step || step.epoch != last_epoch_) ++findings_.steps;
    last_epoch_ = step.epoch;
    findings_.last_step_order = line.order;
    if (step.step) findings_.last_step = index;
    if (step.step && line.rank &&
        (findings_.last_steps.size() < kMostRanks || findings_.last_steps.contains(*line.rank)))
      findings_.last_steps[*line.rank] = index;
    if (marker_ != Phase::kTrain) set_marker(Phase::kTrain, line, false);
  }
  if (step.shape != 0 && shapes_.size() < 16 && shapes_.insert(step.shape).second) {
    findings_.shapes = static_cast<std::int64_t>(shapes_.size());
    findings_.shape_place = {line.file, line.number};
    findings_.shape_text = std::string{cut_text(line.text, 200)};
  }
  if (step.memory.empty()) return;
  const std::int64_t rank = line.rank.value_or(-1);
  auto found = series_of_.find(rank);
  if (found == series_of_.end()) {
    if (findings_.series.size() >= kMostSeries) return;
    found = series_of_.emplace(rank, findings_.series.size()).first;
    findings_.series.push_back({line.rank, {}, 1, 0, {}, {}});
  }
  StepSeries& series = findings_.series[found->second];
  if (!series.points.empty() && step.step && series.points.back().step == index) return;  // printed again
  if (series.seen++ % series.stride != 0) return;
  StepPoint point;
  point.step = index;
  point.order = line.order;
  point.place = {line.file, line.number};
  for (const MemoryFigure& figure : step.memory) {
    std::int64_t& slot = figure.gauge == Gauge::kAllocated  ? point.allocated
                         : figure.gauge == Gauge::kReserved ? point.reserved
                         : figure.gauge == Gauge::kPeak     ? point.peak
                         : figure.gauge == Gauge::kHost     ? point.host
                                                            : point.used;
    if (slot == 0) slot = figure.bytes;
  }
  series.points.push_back(point);
  series.last_text = std::string{cut_text(line.text, 200)};
  if (series.points.size() <= 2) series.first_text = series.last_text;
  if (series.points.size() < kMostPoints) return;
  for (std::size_t i = 0; i < series.points.size() / 2; ++i) series.points[i] = series.points[2 * i];
  series.points.resize(series.points.size() / 2);
  series.stride *= 2;
}

// What a call was refused for stands on the line before the complaint that nothing came of it.
void Collector::heed_reason(const Line& line, const Stream& stream, Signal& signal) {
  if (signal.kind != SignalKind::kSharedMemory && signal.kind != SignalKind::kDiskWrite) return;
  // "No space left" without a path is about what the next line names.
  if (!findings_.events.empty() && signal.kind == SignalKind::kSharedMemory) {
    Event& before = findings_.events.back();
    const bool near = before.place.file == line.file && line.number - before.place.line <= kNear;
    const auto error = parse_system_error(before.text);
    if (near && before.signal.kind == SignalKind::kDiskFull && error && error->path.empty()) before.signal = signal;
  }
  if (stream.reason_line < 0 || line.number - stream.reason_line > kNear) return;
  signal.kind = SignalKind::kException;
  signal.exception = "OSError";
  signal.message = stream.reason;
}

Findings Collector::take() {
  for (auto& [id, stream] : streams_) add_cut_traceback(stream);
  // What counts steps is often printed behind a failure that came after them: one stream is buffered, the other is not.
  if (findings_.last_step >= 0)
    for (Event& event : findings_.events)
      if (!event.step && event.attempt == findings_.attempt_ends.size()) event.step = findings_.last_step;
  return std::move(findings_);
}

}  // namespace plimsoll::why
