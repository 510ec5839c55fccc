// SPDX-License-Identifier: Apache-2.0
// Tracebacks: the frames of Python, of notebooks and of rich's boxes, and those whose end is missing.
#include <utility>

#include "base/text.h"
#include "why/collector.h"
#include "why/graph_node.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostFrames = 192;

// "[/w/layer.py](https://localhost:8080/#) in message(self)": a notebook's frame whose path is a link.
std::size_t link_end(std::string_view text) {
  if (!text.starts_with('[')) return kNone;
  const std::size_t link = text.find(".py](");
  return link == kNone ? kNone : text.find(") in ", link);
}

// A frame of IPython after whose head a log was cut.
bool begins_notebook_frame(std::string_view text) {
  if (link_end(text) != kNone) return true;
  // Before version 8: "/w/train.py in main(args)".
  if (const std::size_t old = text.find(".py in "); old != kNone && (text.front() == '/' || text.front() == '~'))
    return text.find(' ') > old && text.ends_with(')');
  if (!text.starts_with("File ") || text.starts_with("File \"")) return false;
  const std::size_t place = text.find(".py:");
  return place != kNone && text.find(' ', 5) > place && place + 4 < text.size() && is_digit(text[place + 4]) &&
         text.find(", in ", place) < place + 14 && text.ends_with(')');
}

// What says that something failed is no code, and no part of a path.
bool says_failure(std::string_view text) {
  constexpr Topics kFails = bit(Topic::kOom) | bit(Topic::kHost) | bit(Topic::kKill) | bit(Topic::kFailure) |
                            bit(Topic::kLibrary) | bit(Topic::kNccl) | bit(Topic::kDisk) | bit(Topic::kAbort);
  return parse_exception(text) || (log_scanner().topics(text) & kFails) != 0;
}

// The message that a line of code raises, of which a traceback that was cut shows no more than this line:
// "ValueError: no room" of `raise ValueError("no room"`.
std::string raised_by(std::string_view code) {
  if (!code.starts_with("raise ")) return {};
  code.remove_prefix(6);
  std::size_t end = 0;
  while (end < code.size() && (is_word(code[end]) || code[end] == '.')) ++end;
  const std::size_t open = code.find_first_of("\"'", end);
  if (end == 0 || end >= code.size() || code[end] != '(' || open == kNone) return {};
  const std::size_t close = code.find(code[open], open + 1);
  return std::string{code.substr(0, end)} + ": " + std::string{code.substr(open + 1, close - open - 1)};
}

}  // namespace

void Collector::take_frame(Stream& stream, Frame frame) {
  mention(frame.path);
  if (stream.frames.size() >= kMostFrames) stream.frames.erase(stream.frames.begin() + kMostFrames / 2);
  stream.frames.push_back(std::move(frame));
  stream.wants_code = false;
}

// A frame as IPython prints it: "File ~/w/train.py:12, in main(args)", before version 8 "~/w/train.py in main(args)";
// the line of code is marked by an arrow.
bool Collector::read_notebook_frame(const Line& line, Stream& stream) {
  const std::string_view text = line.text;
  if (text.starts_with("--") && text.find("> ") < 8 && !stream.frames.empty()) {
    std::string_view code = text.substr(text.find("> ") + 2);
    while (!code.empty() && (is_digit(code.front()) || is_blank(code.front()))) code.remove_prefix(1);
    stream.frames.back().code = std::string{cut_text(code, 300)};
    return true;
  }
  if (const std::size_t link = link_end(text); link != kNone) {
    Frame frame;
    frame.path = std::string{cut_text(text.substr(1, text.find("](") - 1), 300)};
    const std::string_view name = text.substr(link + 5);
    frame.function = std::string{cut_text(name.substr(0, name.find('(')), 120)};
    take_frame(stream, std::move(frame));
    return true;
  }
  const bool fresh = text.starts_with("File ") && text.find(", in ") != kNone;
  std::size_t end = text.find(fresh ? ".py:" : ".py in ");
  const bool cell = text.starts_with("Cell In[") || text.starts_with("<ipython-input");
  if (!cell && (end == kNone || text.find(' ', fresh ? 5 : 0) < end)) return false;
  Frame frame;
  frame.path = cell ? "notebook" : std::string{cut_text(text.substr(fresh ? 5 : 0, end + 3 - (fresh ? 5 : 0)), 300)};
  const std::size_t in = cell ? kNone : text.find(" in ", end);
  if (in != kNone) {
    std::string_view name = text.substr(in + 4);
    frame.function = std::string{cut_text(name.substr(0, name.find('(')), 120)};
  }
  take_frame(stream, std::move(frame));
  return true;
}

// A frame as rich prints it: "| /w/train.py:12 in main |" inside a box, the line of code marked by an arrow.
bool Collector::read_boxed_frame(const Line& line, Stream& stream) {
  constexpr std::string_view kBar = "\xE2\x94\x82";
  constexpr std::string_view kArrow = "\xE2\x9D\xB1";
  std::string_view text = line.text;
  if (!text.starts_with(kBar)) return false;
  text.remove_prefix(kBar.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.ends_with(kBar)) text.remove_suffix(kBar.size());
  text = trim(text);
  if (const std::size_t arrow = text.find(kArrow); arrow < 8) {
    const std::size_t bar = text.find(kBar, arrow);
    if (bar != kNone && !stream.frames.empty())
      stream.frames.back().code = std::string{cut_text(trim(text.substr(bar + kBar.size())), 300)};
    return true;
  }
  const std::size_t place = text.find(".py:");
  if (place != kNone && place + 4 < text.size() && is_digit(text[place + 4]) && text.find(' ') > place) {
    Frame frame;
    frame.path = std::string{cut_text(text.substr(0, place + 3), 300)};
    const std::size_t in = text.find(" in ", place);
    if (in != kNone) frame.function = std::string{cut_text(trim(text.substr(in + 4)), 120)};
    take_frame(stream, std::move(frame));
  }
  return true;
}

// Loggers that fill columns break a frame wherever their column ends: "File", then "\"/w/long_", "name.py\", line 7, in
// step". The whole frame once its last part has been read; until then the parts are kept.
std::string Collector::unwrapped_frame(const Line& line, Stream& stream) {
  constexpr std::size_t kLongest = 600;
  constexpr int kParts = 6;
  const std::string_view text = line.text;
  const auto complete = [](std::string_view frame) {
    const std::size_t number = frame.find("\", line ");
    return number != kNone && frame.find(", in ", number) != kNone;
  };
  if (stream.wrapped.empty()) {
    const bool begins = text == "File" || (text.starts_with("File \"") && text.find('"', 6) == kNone);
    if (begins) {
      stream.wrapped = text == "File" ? "File " : std::string{text};
      stream.wrapped_parts = 1;
    }
    return {};
  }
  // The path comes next, and no message is a part of it.
  if ((stream.wrapped_parts == 1 && stream.wrapped == "File " && !text.starts_with('"')) || says_failure(text)) {
    stream.wrapped.clear();
    return {};
  }
  stream.wrapped += text;
  std::string whole;
  if (complete(stream.wrapped)) whole = stream.wrapped;
  if (!whole.empty() || ++stream.wrapped_parts > kParts || stream.wrapped.size() > kLongest) stream.wrapped.clear();
  return whole;
}

// A frame of a traced program: "/w/model.py(344): forward".
bool Collector::read_traced_frame(const Line& line, Stream& stream) {
  const std::string_view text = line.text;
  const std::size_t place = text.find(".py(");
  if (place == kNone || place + 4 >= text.size() || !is_digit(text[place + 4]) || text.find(' ') < place) return false;
  const std::size_t close = text.find("): ", place);
  if (close == kNone || close > place + 12) return false;
  Frame frame;
  frame.path = std::string{cut_text(text.substr(0, place + 3), 300)};
  frame.function = std::string{cut_text(trim(text.substr(close + 3)), 120)};
  mention(frame.path);
  if (stream.frames.size() >= kMostFrames) stream.frames.erase(stream.frames.begin() + kMostFrames / 2);
  // Printed from the inside out.
  stream.frames.insert(stream.frames.begin(), std::move(frame));
  stream.wants_code = false;
  return true;
}

// A traceback whose head was cut away shows itself by the arrow at the line that raised, or by the number of a line.
void Collector::open_headless(const Line& line, Stream& stream) {
  const std::string_view text = line.text;
  if (text.starts_with("\xE2\x94\x82") && text.find("\xE2\x9D\xB1") < 12) {
    stream.open = true;
    stream.frames.assign(1, Frame{});
  }
  if (!stream.open && begins_notebook_frame(text)) {
    stream.open = true;
    stream.place = {line.file, line.number};
    stream.frames.clear();
  }
}

// The head of a traceback: Python's, or that of a traced program.
bool Collector::read_head(const Line& line, Stream& stream) {
  const std::string_view text = line.text;
  if (find_word(text, "traceback of torchscript") == 0) {
    stream.open = true;
    stream.place = {line.file, line.number};
    stream.frames.clear();
    return true;
  }
  const std::size_t head = find_word(text, "traceback (most recent call last)");
  if (head == kNone) return false;
  // A bar that was being drawn when it was printed goes on behind it.
  constexpr std::size_t kHead = std::string_view{"traceback (most recent call last):"}.size();
  if (text.size() > head + kHead + 8) {
    Line bar = line;
    bar.text = trim(text.substr(head + kHead));
    read_progress(bar, 0);
  }
  if (stream.open && !stream.frames.empty() && stream.bare_event >= 0) attach_frames(stream, stream.bare_event);
  stream.open = true;
  stream.place = {line.file, line.number};
  stream.header = parse_exception(trim(text.substr(0, head))) ? std::string{trim(text.substr(0, head))} : "";
  stream.steps = findings_.steps;
  stream.wants_code = false;
  stream.frames.clear();
  stream.continued_event = -1;
  return true;
}

// "File "/w/train.py", line 12, in main".
bool Collector::read_python_frame(std::string_view text, int indent, Stream& stream) {
  const std::size_t file = text.find("File \"");
  if (file >= 4) return false;
  const std::size_t close = text.find("\", line ", file + 6);
  if (close == kNone) return false;
  Frame frame;
  frame.path = std::string{cut_text(text.substr(file + 6, close - file - 6), 300)};
  const std::size_t in = text.find(", in ", close);
  if (in != kNone) frame.function = std::string{cut_text(trim(text.substr(in + 5)), 120)};
  if (frame.path.size() > 2 && frame.path[1] == ':' && frame.path[2] == '\\') findings_.is_windows = true;
  take_frame(stream, std::move(frame));
  stream.wants_code = true;
  stream.frame_indent = indent;
  stream.open = true;
  return true;
}

// The line of code under a frame, and the marks under that.
bool Collector::read_code(const Line& line, Stream& stream) {
  const std::string_view text = line.text;
  if (!stream.open || stream.frames.empty()) return false;
  if (text.find_first_not_of("^~ ") == kNone) return true;
  if (!stream.wants_code) return false;
  // A logger may have taken the indentation of the whole traceback.
  const bool is_flat = stream.frame_indent < 2 && line.indent >= stream.frame_indent &&
                       text.find("File \"") > text.size() && !says_failure(text);
  if (line.indent < 2 && !is_flat) return false;
  stream.frames.back().code = std::string{cut_text(text, 300)};
  stream.wants_code = false;
  return true;
}

bool Collector::read_traceback(const Line& line, Stream& stream) {
  if (!stream.open) open_headless(line, stream);
  if (stream.open && (read_boxed_frame(line, stream) || read_notebook_frame(line, stream))) return true;
  if (stream.open && read_traced_frame(line, stream)) return true;
  if (read_head(line, stream)) return true;
  if (const std::string whole = unwrapped_frame(line, stream); !whole.empty())
    return read_python_frame(whole, line.indent, stream);
  if (!stream.wrapped.empty()) return true;
  return read_python_frame(line.text, line.indent, stream) || read_code(line, stream);
}

// The node of a graph stands on the line of its failure or on the next.
bool Collector::read_node(const Line& line) {
  constexpr std::int64_t kNear = 2;  // lines
  if (!line.text.starts_with("[[") || findings_.events.empty()) return false;
  Event& event = findings_.events.back();
  if (event.signal.kind != SignalKind::kDeviceOom || event.node != Phase::kUnknown || event.place.file != line.file ||
      line.number - event.place.line > kNear)
    return false;
  const auto node = phase_of_graph_node(line.text);
  if (node) event.node = *node;
  return node.has_value();
}

// A frame of a compiled language below its message: "at jcuda.driver.JCudaDriver.cuCtxCreate(JCudaDriver.java:1514)",
// "frame #3: cuDevicePrimaryCtxRetain + 0x1f". What matters is whether a context was being made.
bool Collector::read_native_frame(const Line& line) {
  constexpr std::int64_t kStack = 24;  // lines
  const std::string_view text = line.text;
  const bool java = text.starts_with("at ") && text.ends_with(')');
  if (!java && !text.starts_with("frame #") && !(text.starts_with('#') && text.size() > 2 && is_digit(text[1])))
    return false;
  if (!has_any(text, {"ctxcreate", "ctxretain", "ctx_create", "createcontext"})) return java;
  for (auto event = findings_.events.rbegin(); event != findings_.events.rend(); ++event) {
    if (event->place.file != line.file || line.number - event->place.line > kStack) break;
    if (event->signal.kind == SignalKind::kDeviceOom) event->makes_context = true;
  }
  return java;
}

// "AssertionError:" with its text on the next line.
bool Collector::read_message_below(const Line& line) {
  if (findings_.events.empty()) return false;
  Event& event = findings_.events.back();
  if (event.place.file != line.file || event.place.line + 1 != line.number || event.stream != line.stream ||
      event.signal.exception.empty() || !event.signal.message.empty() || parse_exception(line.text) ||
      line.text.find("File \"") < 4)
    return false;
  // A debugger's heading has no colon behind the class.
  const bool is_heading = event.text.ends_with(": " + event.signal.exception);
  if (!event.text.ends_with(':') && !is_heading) return false;
  const std::string head = is_heading ? event.signal.exception + ":" : event.text;
  const std::string whole = "\n" + head + " " + std::string{cut_text(line.text, 400)} + "\n";
  Line joined = line;
  joined.text = trim(std::string_view{whole});
  auto signal = recognise(joined, log_scanner().topics(whole), true, rules_);
  if (!signal) return false;
  event.signal = *std::move(signal);
  event.text = std::string{joined.text};
  return true;
}

void Collector::attach_frames(Stream& stream, std::int64_t index) {
  Event& event = findings_.events[static_cast<std::size_t>(index)];
  if (!stream.frames.empty() && !event.has_frames) {
    event.frames = phase_of_frames(stream.frames);
    event.has_frames = true;
    // Python has one class for memory, whoever raises it.
    if (event.signal.kind == SignalKind::kHostAllocation && event.frames.device_allocator)
      event.signal.kind = SignalKind::kUnclearMemory;
  }
  stream.frames.clear();
  stream.open = false;
  stream.wants_code = false;
  stream.bare_event = -1;
}

// A traceback that was cut before its last line: it belongs to the message that came before it, or says by itself that
// something failed. A notebook names the exception at its head.
void Collector::add_cut_traceback(Stream& stream) {
  constexpr std::int64_t kEnd = 12;  // lines
  if (!stream.open) return;
  if (stream.bare_event >= 0) {
    if (!stream.frames.empty()) attach_frames(stream, stream.bare_event);
    return;
  }
  if (findings_.events.size() >= kMostEvents) return;
  // Without a frame only the end of the log makes it more than a line that was logged and left behind.
  if (stream.frames.empty() && stream.place.line + kEnd <= findings_.files[stream.place.file].lines) return;
  Event event;
  event.signal.kind = SignalKind::kExit;
  event.text = "Traceback (most recent call last): ... (cut)";
  if (stream.header.empty() && !stream.frames.empty()) stream.header = raised_by(stream.frames.back().code);
  if (!stream.header.empty()) {
    const std::string whole = "\n" + stream.header + "\n";
    Line head;
    head.text = trim(std::string_view{whole});
    // In Python that class is the device allocator's; the host's is MemoryError.
    const auto parsed = parse_exception(head.text);
    if (parsed && parsed->type == "OutOfMemoryError")
      event.signal.kind = SignalKind::kDeviceOom;
    else if (auto signal = recognise(head, log_scanner().topics(whole), true, rules_))
      event.signal = *std::move(signal);
    event.text = stream.header;
  }
  event.place = stream.place;
  event.order = order_;
  event.steps_before = stream.steps;
  event.attempt = findings_.attempt_ends.size();
  event.marker = marker_;
  findings_.events.push_back(std::move(event));
  attach_frames(stream, static_cast<std::int64_t>(findings_.events.size()) - 1);
}

}  // namespace plimsoll::why
