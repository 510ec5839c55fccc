// SPDX-License-Identifier: Apache-2.0
// One line of a log without what launchers and loggers put in front of it: colours, timestamps, levels,
// and the rank or process that it came from. Lines of one rank or process form a stream, so that a
// traceback can be read although other ranks write between its lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::why {

// When a line was written, as far as it says: only clocks of the same kind can be compared.
struct Clock {
  enum class Kind : std::uint8_t { kNone, kTimeOfDay, kDayOfYear, kDate };
  Kind kind = Kind::kNone;
  std::int64_t milliseconds = 0;

  [[nodiscard]] bool is_before(const Clock& other) const {
    return kind != Kind::kNone && kind == other.kind && milliseconds < other.milliseconds;
  }
};

enum class Level : std::uint8_t { kNone, kInfo, kWarning, kError };

struct Line {
  std::uint32_t file = 0;    // index of the input
  std::int64_t number = 0;   // 1-based
  std::int64_t order = 0;    // over all files, rising
  std::string_view text;     // without prefix and surrounding blanks
  int indent = 0;            // blanks before the text, after the prefix
  std::optional<int> rank;   // from the prefix, or from the name of the file
  std::uint64_t stream = 0;  // same for lines of one writer
  Level level = Level::kNone;
  Clock clock;
  bool is_kernel = false;  // dmesg or syslog
};

// Fills text, indent, rank, stream, level and is_kernel of `line` from the raw bytes. `line.file` and a
// rank from the file's name are set by the caller. The text lives in `scratch`, between two newlines.
void clean_line(std::string_view raw, std::string& scratch, Line& line);

// The text of a line of a structured log: the value of "msg", "message", "log" or "text" of a JSON object, unescaped.
// nullopt for other lines.
[[nodiscard]] std::optional<std::string> structured_message(std::string_view raw);

// A rank in the name of a per-rank log: rank3.log, rank_03/stderr, attempt_0/3/stderr.log, log.3.
[[nodiscard]] std::optional<int> rank_of_file(std::string_view path);

}  // namespace plimsoll::why
