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

namespace plimsoll::cli {

namespace {

constexpr int kNarrowest = 40;
constexpr int kWidest = 1000;

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

void write(std::FILE* stream, std::string_view text) { std::fwrite(text.data(), 1, text.size(), stream); }

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

void Console::print(std::string_view text) const { write(out, text); }

void Console::error(const Error& error) const {
  std::fflush(out);
  write(err, fmt::format("{} {}\n", paint("plimsoll:", Style::kBad, colour_err), to_string(error)));
  if (!error.hint.empty()) write(err, fmt::format("hint: {}\n", error.hint));
}

void Console::warn(std::string_view text) const {
  if (quiet) return;
  std::fflush(out);
  write(err, fmt::format("{} {}\n", paint("warning:", Style::kWarning, colour_err), text));
}

void Console::note(std::string_view text) const {
  if (quiet) return;
  std::fflush(out);
  write(err, fmt::format("note: {}\n", text));
}

void Console::next(std::string_view command) const {
  if (quiet || !watched) return;
  std::fflush(out);
  write(err, fmt::format("{} {}\n", paint("next:", Style::kDim, colour_err), command));
}

void Console::progress(std::string_view text) const {
  remember_progress(text);
  if (quiet || !watched) return;
  write(err, fmt::format("{}\n", text));
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

}  // namespace plimsoll::cli
