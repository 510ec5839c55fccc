// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/text.h"
#include "cli/waiting.h"

namespace plimsoll::cli {

namespace {

constexpr int kNarrowest = 40;
constexpr int kWidest = 1000;

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

void write(std::FILE* stream, std::string_view text) { std::fwrite(text.data(), 1, text.size(), stream); }

// The only escape sequences that reach a terminal are these, which paint() writes.
constexpr std::string_view kPaints[] = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[1;32m", "\x1b[1;31m", "\x1b[33m"};

// Bytes at the front that are ours: a line end, a tab, our colour.
std::size_t own_bytes(std::string_view text, bool colour) {
  if (text.front() == '\n' || text.front() == '\t') return 1;
  if (colour && text.front() == '\x1b')
    for (const std::string_view paint : kPaints)
      if (text.starts_with(paint)) return paint.size();
  return 0;
}

// Names, keys and lines of files are part of what is printed: here, and only here, what they could do to a terminal is
// taken out of them.
std::string sanitised(std::string_view text, bool colour) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    std::size_t foreign = 0;
    while (foreign < text.size() && own_bytes(text.substr(foreign), colour) == 0) ++foreign;
    clean += printable(text.substr(0, foreign), text.size() * 4);
    text.remove_prefix(foreign);
    if (text.empty()) break;
    const std::size_t own = own_bytes(text, colour);
    clean += text.substr(0, own);
    text.remove_prefix(own);
  }
  return clean;
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
}

// Messages quote what they are about; a file of one line is not quoted whole.
constexpr std::size_t kLongestMessage = 2000;

int width_of_output() {
  winsize size{};
  if (is_terminal(stdout) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<int>(size.ws_col, kNarrowest, kWidest);
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr) {
    int width = 0;
    const char* end = columns + std::strlen(columns);
    if (const auto parsed = std::from_chars(columns, end, width); parsed.ec == std::errc{} && parsed.ptr == end)
      return std::clamp(width, kNarrowest, kWidest);
  }
  return 0;
}

bool colour_by_default() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

}  // namespace

void Console::print(std::string_view text) const {
  make_room();
  if (is_plain(text)) return write(out, text);
  write(out, sanitised(text, colour_out));
}

void Console::error(const Error& error) const {
  std::fflush(out);
  make_room();
  write(err, fmt::format("{} {}\n", paint("plimsoll:", Style::kBad, colour_err),
                         printable(to_string(error), kLongestMessage)));
  if (!error.hint.empty()) write(err, fmt::format("hint: {}\n", printable(error.hint, kLongestMessage)));
}

void Console::warn(std::string_view text) const {
  if (quiet) return;
  std::fflush(out);
  make_room();
  write(err, fmt::format("{} {}\n", paint("warning:", Style::kWarning, colour_err), printable(text, kLongestMessage)));
}

void Console::note(std::string_view text) const {
  if (quiet) return;
  std::fflush(out);
  make_room();
  write(err, fmt::format("note: {}\n", printable(text, kLongestMessage)));
}

void Console::next(std::string_view command) const {
  if (quiet || !watched) return;
  std::fflush(out);
  make_room();
  write(err, fmt::format("{} {}\n", paint("next:", Style::kDim, colour_err), printable(command, kLongestMessage)));
}

void Console::told(std::string_view text) const {
  remember_progress(text);
  if (quiet || !watched) return;
  make_room();
  write(err, fmt::format("{}\n", printable(text, kLongestMessage)));
}

void Console::progress(const answer::HowFar& how_far) const {
  remember_progress(how_far.words);
  if (waiting != nullptr) waiting->tell(how_far);
}

void Console::make_room() const {
  if (waiting != nullptr) waiting->make_room();
}

Status Console::flush() const {
  if (std::fflush(out) == 0 && std::ferror(out) == 0) return {};
  return tl::make_unexpected(
      Error{Code::kMissing, fmt::format("the answer could not be written: {}", std::strerror(errno)), {}, {}});
}

Console process_console() {
  Console console;
  console.watched = is_terminal(stderr);
  console.width = width_of_output();
  console.prose_width = is_terminal(stdout) ? console.width : 0;
  set_color(console, ColorMode::kAuto);
  return console;
}

void set_color(Console& console, ColorMode mode) {
  const auto decide = [mode](std::FILE* stream) {
    if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
    return colour_by_default() && is_terminal(stream);
  };
  console.colour_out = decide(console.out);
  console.colour_err = decide(console.err);
}

std::string paint(std::string_view text, Style style, bool colour) {
  std::string_view code;
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      code = "1";
      break;
    case Style::kDim:
      code = "2";
      break;
    case Style::kGood:
      code = "1;32";
      break;
    case Style::kBad:
      code = "1;31";
      break;
    case Style::kWarning:
      code = "33";
      break;
  }
  if (!colour || code.empty()) return std::string{text};
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

answer::Progress to_person(const Console& console) {
  return [&console](const answer::HowFar& how_far) { console.progress(how_far); };
}

}  // namespace plimsoll::cli
