// SPDX-License-Identifier: Apache-2.0
// Reads the chosen lines of the logs, in order, and gathers Findings. Lines of different ranks may be
// interleaved: tracebacks are put together per stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "why/findings.h"

namespace plimsoll::why {

class Collector {
 public:
  // `rules`: what frameworks print about configurations; without them an unknown exception is read by its words only.
  explicit Collector(ConfigRules rules = nullptr) : rules_(rules) {}

  void begin_file(std::string name, std::optional<int> rank);
  // One line of the current file; `number` is its 1-based line number.
  void add_line(std::string_view raw, std::int64_t number);
  void end_file(std::int64_t bytes, std::int64_t lines, std::string damage = {}, bool is_sampled = false);
  [[nodiscard]] Findings take();
  // How many lines have reported something, or begun another phase than training, or been part of a report.
  [[nodiscard]] std::int64_t told() const { return told_; }
  // Whether a line of these words (words_hash) has been reported so often that once more tells nothing.
  [[nodiscard]] bool is_worn_out(std::uint64_t words) const;

 private:
  struct Stream {
    bool open = false;  // a traceback is being read
    bool wants_code = false;
    int frame_indent = 0;           // of the last frame of Python
    Place place;                    // where it began
    std::string header;             // the exception that a notebook names at the head of a traceback
    std::int64_t steps = 0;         // done when it began
    std::int64_t reason_line = -1;  // a call failed here, for a reason that is no shortage
    std::string reason;
    Clock clock;  // of its last line that had one
    std::vector<Frame> frames;
    std::int64_t bare_event = -1;       // without frames; a traceback may follow it
    std::int64_t continued_event = -1;  // its message may go on in the next lines
    int continuations = 0;
    std::string wrapped;  // parts of a frame that a logger has broken
    int wrapped_parts = 0;
    std::string code;  // an indented line of code without the frame that it belongs to
    std::int64_t code_line = -1;
  };

  static constexpr std::size_t kMostEvents = 12000;
  static constexpr std::size_t kMostRanks = 65536;
  static constexpr std::int64_t kNearLines = 3;  // that speak of one thing

  Stream& stream_of(std::uint64_t id);
  void add_drawings(std::string_view raw, std::int64_t number);
  void read_segment(std::string_view raw, std::int64_t number);
  bool read_quoted_traceback(std::string_view raw, std::int64_t number);
  bool read_after_bar(const Line& line, Topics topics, Stream& stream);
  void strip_host(Line& line);
  static void strip_pytest(Line& line);
  bool read_notebook_frame(const Line& line, Stream& stream);
  bool read_boxed_frame(const Line& line, Stream& stream);
  static std::string unwrapped_frame(const Line& line, Stream& stream);
  bool read_traced_frame(const Line& line, Stream& stream);
  static void open_headless(const Line& line, Stream& stream);
  bool read_head(const Line& line, Stream& stream);
  bool read_python_frame(std::string_view text, int indent, Stream& stream);
  static bool read_code(const Line& line, Stream& stream);
  bool read_traceback(const Line& line, Stream& stream);
  bool read_node(const Line& line);
  bool read_native_frame(const Line& line);
  bool read_message_below(const Line& line);
  bool read_continuation(const Line& line, Stream& stream);
  void read_progress(const Line& line, Topics topics);
  void read_facts(const Line& line, Topics topics);
  void read_memory_facts(const Line& line, Topics topics);
  void read_device(const Line& line);
  void read_start(std::string_view text);
  void read_driver(const Line& line);
  void read_summary_row(std::string_view text);
  void read_program(std::string_view text);
  void read_retries(const Line& line);
  void read_smi(const Line& line);
  void read_version(std::string_view text);
  void read_world(std::string_view text);
  void read_upgrade(const Line& line);
  void read_command(const Line& line);
  void read_setting(const Line& line);
  void read_config(const Line& line);
  void read_graphs(std::string_view name, std::string_view value, const Line& line);
  void read_serving(const Line& line);
  void read_elastic(const Line& line);
  void mention(std::string_view text);
  // The next frame of a traceback, whose line of code is read with it or not at all.
  void take_frame(Stream& stream, Frame frame);
  void add_event(const Line& line, Signal signal, Stream& stream);
  void read_tasks(std::string_view text);
  void keep_error(const Line& line, SignalKind kind);
  void attach_frames(Stream& stream, std::int64_t event);
  void heed_reason(const Line& line, const Stream& stream, Signal& signal);
  void add_cut_traceback(Stream& stream);
  bool goes_on_from_exception(const Line& line);
  void read_purpose(const Line& line);
  void set_marker(Phase phase, const Line& line, bool unfinished);
  void add_step(const Line& line, const StepLine& step);

  ConfigRules rules_;
  Findings findings_;
  std::string scratch_;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::unordered_map<std::uint64_t, std::size_t> event_keys_;
  std::unordered_set<std::uint64_t> shapes_;
  std::unordered_set<std::string> hosts_;                    // prefixes that pdsh and the like put before every line
  std::unordered_map<std::int64_t, std::size_t> series_of_;  // rank, -1 for none
  std::map<SignalKind, std::size_t> of_kind_;                // events kept
  std::unordered_map<std::uint64_t, std::int64_t> worn_;     // events by their words without numbers
  std::string_view raw_;                                     // the segment that is being read
  std::int64_t events_seen_ = 0;
  std::int64_t told_ = 0;
  std::int64_t bars_ = 0;          // of training loops
  std::int64_t open_streams_ = 0;  // with a traceback that is being read
  std::int64_t order_ = 0;
  Phase marker_ = Phase::kUnknown;
  Place marker_place_;
  std::string marker_text_;
  bool marker_unfinished_ = false;
  Phase purpose_ = Phase::kUnknown;  // of the last buffer that was refused
  Place purpose_place_{0, -100};
  bool root_cause_ = false;
  std::optional<int> elastic_rank_;
  std::optional<std::int64_t> last_epoch_;
  std::size_t rss_from_end_ = 0;  // column of the kernel's list of tasks, 0: not in it
  bool in_config_ = false;
  bool entered_loop_ = false;
  bool failed_since_step_ = false;
};

}  // namespace plimsoll::why
