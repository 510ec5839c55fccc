// SPDX-License-Identifier: Apache-2.0
// rank-N.jsonl: what the hook wrote inside one process of the run (python/plimsoll_hook.py). A process that was killed
// leaves a file that ends anywhere; what was written before counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::live {

struct StepReading {
  std::int64_t step = 0;
  std::int64_t count = 1;  // steps that the line stands for
  double at = 0;           // seconds since the first step
  double seconds = 0;      // of one step; 0: the first, which has no step before it
  double backward = 0;
  double optimizer = 0;
  std::int64_t allocated = 0;  // bytes after the step
  std::int64_t reserved = 0;
  std::int64_t used = 0;  // of the device, all processes; 0: not asked
  std::int64_t rss = 0;
};

struct OutOfMemoryReading {
  std::int64_t step = 0;  // steps that were done
  std::string phase;      // "start", "forward", "backward", "optimizer", "evaluation", "save", "load", "between"
  std::int64_t requested = 0;
  std::int64_t total = 0;
  std::int64_t free = 0;
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::vector<std::string> stack;  // innermost first
};

struct RankRun {
  std::string file;  // name of the file
  std::int64_t rank = 0;
  std::int64_t world = 1;
  std::int64_t local_rank = 0;
  std::int64_t pid = 0;
  std::int64_t restart = 0;  // how often the launcher had started all ranks again before this one
  std::string host;
  std::string torch;
  std::string device_name;  // "": it used none
  std::string uuid;
  std::int64_t device = -1;  // number of the device inside the process
  std::int64_t total = 0;    // bytes of the device
  std::map<std::string, std::string> settings;
  std::vector<StepReading> steps;  // thinned out evenly where there are many
  std::int64_t steps_done = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t inactive_most = 0;       // free pieces between blocks in use
  std::int64_t retries = 0;             // of the allocator: it had to give its cache back
  std::optional<std::int64_t> outside;  // most that the device held beyond what torch had reserved
  std::int64_t rss_most = 0;
  std::optional<OutOfMemoryReading> oom;  // the last
  std::string snapshot;                   // name of its file
  std::int64_t history_given_up = 0;      // allocations a second that made the hook keep no history; 0: it did
  std::string error_type;
  std::string error;
  double error_time = 0;  // seconds since 1970; 0: not said
  bool ended = false;     // the process came to its end by itself
  std::string trouble;    // of the hook
  bool gave_up = false;   // the hook, and measured nothing from then on
  std::int64_t bad_lines = 0;

  // Median seconds of the steps after the second; nothing where there are none.
  [[nodiscard]] std::optional<double> step_seconds() const;
  // Ran long enough for the peak that lasts: that of the second step.
  [[nodiscard]] bool has_lasting_peak() const { return steps_done >= 2 && peak_allocated > 0; }
  [[nodiscard]] bool failed() const { return oom.has_value() || !error.empty(); }
};

// Reads a file as it grows: lines that are not complete wait for their rest.
class RankReader {
 public:
  explicit RankReader(std::string name) { run_.file = std::move(name); }
  void feed(std::string_view text);
  void end();  // what waits is a line, too
  [[nodiscard]] const RankRun& run() const { return run_; }
  [[nodiscard]] RankRun take() { return std::move(run_); }
  [[nodiscard]] bool is_rank() const { return good_lines_ > 0; }

 private:
  void take_line(std::string_view line);

  RankRun run_;
  std::string rest_;
  std::int64_t good_lines_ = 0;
};

// `name` is the file's, for messages. Text that is no rank file at all is an error.
[[nodiscard]] Result<RankRun> read_rank(const std::string& name, std::string_view text);

// All of a folder, by rank; a file that cannot be read is named in `problems`.
[[nodiscard]] std::vector<RankRun> read_ranks(const std::string& folder, std::vector<std::string>& problems);

}  // namespace plimsoll::live
