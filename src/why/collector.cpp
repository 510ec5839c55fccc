// SPDX-License-Identifier: Apache-2.0
#include "why/collector.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "why/batch.h"
#include "why/command_line.h"
#include "why/complaint.h"
#include "why/familiar.h"
#include "why/text_hash.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostStreams = 16384;
constexpr std::size_t kLongestSegment = 16384;
constexpr std::int64_t kOften = 8192;       // enough to have heard every rank of a large job
constexpr std::int64_t kManyLines = 20000;  // settings stand at the beginning
constexpr std::size_t kLongestOption = 4000;

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
  const Topics topics = log_scanner().topics(scratch_);
  if (has(topics, Topic::kTraceback) && read_quoted_traceback(raw, number)) return;
  Stream& stream = stream_of(line.stream);
  const OpenCount counted(stream.open, open_streams_);
  if (line.clock.kind != Clock::Kind::kNone) stream.clock = line.clock;
  if (order_ < kManyLines) read_command(line);
  if (read_after_bar(line, topics, stream)) return;
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

// A traceback on one line, as Python and JSON quote it: its line ends are a backslash and an n.
bool Collector::read_quoted_traceback(std::string_view raw, std::int64_t number) {
  if (find_word(raw, "(most recent call last):\\n") == kNone) return false;
  // Loguru draws a line from the variable to its value.
  while (!raw.empty() && (is_blank(raw.front()) || static_cast<unsigned char>(raw.front()) >= 0x80))
    raw.remove_prefix(1);
  std::string lines;
  lines.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size(); ++at) {
    const bool quoted = raw[at] == '\\' && at + 1 < raw.size();
    if (quoted) ++at;
    lines += quoted && raw[at] == 'n' ? '\n' : raw[at];
  }
  for (const std::string_view line : split(lines, '\n')) read_segment(line, number);
  return true;
}

// A bar without a newline swallows the beginning of what comes after it.
bool Collector::read_after_bar(const Line& line, Topics topics, Stream& stream) {
  std::size_t bar_end = line.text.rfind("it/s]");
  if (bar_end == kNone) bar_end = line.text.rfind("s/it]");
  if (bar_end == kNone || bar_end + 5 >= line.text.size()) return false;
  read_progress(line, topics);
  Line after = line;
  after.text = line.text.substr(bar_end + 5);
  if (after.text.starts_with("[A")) after.text.remove_prefix(2);
  const std::string rest = "\n" + std::string{trim(after.text)} + "\n";
  after.text = trim(std::string_view{rest});
  if (after.text.empty() || read_traceback(after, stream)) return true;
  if (auto signal = recognise(after, log_scanner().topics(rest), stream.open, rules_)) {
    read_elastic(after);
    add_event(after, *std::move(signal), stream);
  }
  return true;
}

// What the command says that made this log: its flags, and the batch size wherever it stands.
void Collector::read_command(const Line& line) {
  constexpr std::size_t kLongestCommand = 16384;
  constexpr std::size_t kMostFlags = 1024;
  if (line.text.size() < kLongestOption && !findings_.figures.contains("batch"))
    if (const auto batch = batch_in(line.text)) findings_.figures["batch"] = *batch;
  if (line.text.size() > kLongestCommand || findings_.flags.size() > kMostFlags) return;
  if (line.text.find("--") == kNone) return;
  for (auto& [name, value] : command_flags(line.text)) findings_.flags.emplace(std::move(name), std::move(value));
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

Findings Collector::take() {
  for (auto& [id, stream] : streams_) add_cut_traceback(stream);
  // What counts steps is often printed behind a failure that came after them: one stream is buffered, the other is not.
  if (findings_.last_step >= 0)
    for (Event& event : findings_.events)
      if (!event.step && event.attempt == findings_.attempt_ends.size()) event.step = findings_.last_step;
  return std::move(findings_);
}

}  // namespace plimsoll::why
