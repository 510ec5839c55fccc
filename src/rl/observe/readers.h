// SPDX-License-Identifier: Apache-2.0
// One reader per form of a line. Each says whether the line held something; none keeps the line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "rl/observe/measures.h"
#include "rl/observe/metric_names.h"

namespace plimsoll::rl {

// Intervals of Telescope's events, one object per line with event_type, timestamp, start_time, end_time, source.
class Timeline {
 public:
  struct Event {
    std::string_view type;
    std::string_view source;
    std::optional<double> time, start, end;
    double depth = 0;
    double rank = 0;
  };

  // False for an event that means nothing here.
  bool add(const Event& event, const Place& place, Measures& measures);
  // Shares over all that was seen.
  void finish(Measures& measures);

 private:
  void cover(double time);

  std::optional<double> first_, last_;
  std::optional<double> paused_since_;
  double paused_ = 0;
  double trainer_ = 0;  // seconds of the trainer's outermost events on rank 0
  double sync_ = 0;
  double environment_ = 0;
  double generation_ = 0;
  std::int64_t trainer_events_ = 0;
  Place place_;
};

// Gauges that come one by one, put together per server: a gauge that comes again begins the next sample.
class ServerSeries {
 public:
  // False for what is no gauge of a server.
  bool put(std::string_view server, Meaning meaning, double value, const Place& place, Measures& measures);
  void finish(Measures& measures);

 private:
  struct Server {
    ServerSample sample;
    Place place;
  };
  std::map<std::string, Server, std::less<>> servers_;
};

// A line of a scrape of /metrics; any number of scrapes may follow one another.
[[nodiscard]] bool read_prometheus_line(std::string_view line, const Place& place, const std::string& file,
                                        ServerSeries& servers, Measures& measures);

enum class JsonLine : std::uint8_t { kUnderstood, kIrrelevant, kBroken };
[[nodiscard]] JsonLine read_json_line(std::string_view line, const Place& place, const std::string& file,
                                      Timeline& timeline, ServerSeries& servers, Measures& measures);

// Logs of vLLM and SGLang.
[[nodiscard]] bool read_server_line(std::string_view line, const Place& place, const std::string& file,
                                    Measures& measures);
// Consoles: "step:3 - timing_s/gen:35.2 - ..." of verl, "* exposed_generation: 3.20s (25.0%)" of NeMo-RL, pauses of
// Telescope.
[[nodiscard]] bool read_console_line(std::string_view line, const Place& place, const std::string& file,
                                     Measures& measures);

// The number that `text` starts with, after blanks; thousands may be separated by commas.
[[nodiscard]] std::optional<double> leading_number(std::string_view text);
// The number right after `label` in the line.
[[nodiscard]] std::optional<double> number_after(std::string_view line, std::string_view label);

}  // namespace plimsoll::rl
