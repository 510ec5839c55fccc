// SPDX-License-Identifier: Apache-2.0
// Where a verb writes: the answer to stdout, everything about the run (errors, warnings, the next
// step) to stderr. Colour and width are decided once, here; a pipe gets neither colour nor a width.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "answer/progress.h"
#include "base/result.h"

namespace plimsoll::cli {

class Waiting;

enum class ColorMode { kAuto, kAlways, kNever };
enum class Style { kPlain, kBold, kDim, kGood, kBad, kWarning };

struct Console {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool colour_out = false;
  bool colour_err = false;
  bool watched = false;        // stderr is a terminal: a person reads along
  bool quiet = false;          // -q: errors only
  int width = 0;               // columns of stdout; 0: no limit
  int prose_width = 0;         // the same on a terminal; else 0: a pipe gets whole lines of prose
  Waiting* waiting = nullptr;  // the line of a person who waits, where there is one

  void print(std::string_view text) const;
  void error(const Error& error) const;
  void warn(std::string_view text) const;
  void note(std::string_view text) const;
  // "next: ..." for a person who watches.
  void next(std::string_view command) const;
  // A line of its own that says what goes on; only for a person who watches.
  void told(std::string_view text) const;
  // How far the answer is: in the line of `waiting`, and what an interruption reports.
  void progress(const answer::HowFar& how_far) const;
  // Takes the line of `waiting` back, for what stays there.
  void make_room() const;
  // Answers whether everything printed has arrived (a full disk loses the answer).
  [[nodiscard]] Status flush() const;
};

// The process's own streams. Width is the terminal's, or COLUMNS where stdout is not one.
[[nodiscard]] Console process_console();

// Applies --color; kAuto is colour on a terminal unless NO_COLOR is set (or TERM is dumb).
void set_color(Console& console, ColorMode mode);

// Tells the person who watches how far an answer is.
[[nodiscard]] answer::Progress to_person(const Console& console);

[[nodiscard]] std::string paint(std::string_view text, Style style, bool colour);

}  // namespace plimsoll::cli
