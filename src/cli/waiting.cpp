// SPDX-License-Identifier: Apache-2.0
#include "cli/waiting.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/text.h"

namespace plimsoll::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(1);
// Less than an interrupted program has left, so that its last words stand on a line of their own.
constexpr auto kEvery = kGrace * 3 / 4;
constexpr int kCells = 24;
constexpr int kMark = 4;  // cells of the mark that runs where nothing is known
constexpr std::size_t kLongest = 400;
constexpr std::string_view kTakeBack = "\r\x1b[K";

// Past the buffers: nothing of this program's own output may come between.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int columns_of_terminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Signals are for the thread that works.
std::thread without_signals(auto&& work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(work);
  } catch (const std::exception&) {  // no thread or no memory is left: nobody sees a bar
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

std::string bar_text(const answer::HowFar& how_far, std::chrono::seconds waited, int tick, int width) {
  std::string cells(kCells, '.');
  std::string share;
  if (how_far.share) {
    const double done = std::clamp(*how_far.share, 0.0, 1.0);
    std::fill_n(cells.begin(), static_cast<int>(done * kCells), '#');
    share = fmt::format("{:3.0f} % ", 100 * done);
  } else {
    for (int i = 0; i < kMark; ++i) cells[static_cast<std::size_t>((tick + i) % kCells)] = '#';
  }
  std::string text = fmt::format("[{}] {}{}, {} s", cells, share, printable(how_far.words, kLongest), waited.count());
  if (width > 0 && text.size() >= static_cast<std::size_t>(width)) text.resize(static_cast<std::size_t>(width) - 1);
  return text;
}

bool can_show_waiting() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

Waiting::Waiting(std::string_view name)
    : how_far_{std::string(name), {}}, begun_(Clock::now()), not_before_(begun_ + kPatience) {
  thread_ = without_signals([this] {
    try {
      live();
    } catch (const std::bad_alloc&) {  // the answer is worth more than its bar
    }
  });
}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    take_back();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Waiting::tell(const answer::HowFar& how_far) {
  const std::lock_guard lock(mutex_);
  how_far_ = how_far;
}

void Waiting::make_room() {
  const std::lock_guard lock(mutex_);
  take_back();
  not_before_ = Clock::now() + kPatience;
}

void Waiting::live() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    changed_.wait_for(lock, kEvery);
    if (interrupt_flag().load()) return take_back();
    if (!is_over_ && Clock::now() >= not_before_) draw();
  }
}

void Waiting::draw() {
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun_);
  // The cursor stays at its beginning: whatever else is written stands on this line, not behind it.
  write_all(fmt::format("{}{}\r", kTakeBack, bar_text(how_far_, waited, tick_++, columns_of_terminal())));
  is_shown_ = true;
}

void Waiting::take_back() {
  if (!is_shown_) return;
  write_all(kTakeBack);
  is_shown_ = false;
}

}  // namespace plimsoll::cli
