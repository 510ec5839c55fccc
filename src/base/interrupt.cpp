// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <sys/time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

namespace plimsoll {

namespace {

// Handlers may touch only what stands here, and call only what is safe in a handler.
std::atomic<bool> g_interrupted{false};
std::atomic<int> g_signal{SIGINT};
std::atomic<int> g_uninterrupted{0};
thread_local const std::atomic<bool>* g_own_stop = nullptr;  // of the question that this thread works for

constexpr std::size_t kProgressBytes = 160;
char g_progress[kProgressBytes];
std::atomic<std::size_t> g_progress_bytes{0};

constexpr std::size_t kPathBytes = 4096;
constexpr std::size_t kPaths = 64;
struct Path {
  std::atomic<bool> used{false};
  std::atomic<bool> ready{false};
  char text[kPathBytes];
};
std::array<Path, kPaths> g_temporary;

void say(const char* text, std::size_t bytes) {
  if (write(STDERR_FILENO, text, bytes) < 0) return;  // nobody listens
}

void arm(std::chrono::milliseconds delay) {
  itimerval timer{};
  timer.it_value.tv_usec = static_cast<suseconds_t>(delay.count() * 1000);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void end_now() {
  constexpr char kWords[] = "plimsoll: interrupted, nothing was answered";
  say(kWords, sizeof kWords - 1);
  if (const std::size_t bytes = g_progress_bytes.load(); bytes > 0) {
    say(" (", 2);
    say(g_progress, bytes);
    say(")", 1);
  }
  say("\n", 1);
  for (const Path& path : g_temporary)
    if (path.ready.load()) unlink(path.text);
  _exit(interrupted_exit_code());
}

extern "C" void on_time(int) {
  if (g_uninterrupted.load() == 0) end_now();
  arm(std::chrono::milliseconds(5));
}

extern "C" void on_signal(int number) {
  if (g_interrupted.exchange(true)) return on_time(number);  // asked twice
  g_signal.store(number);
  arm(kGrace);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  // What was ignored when the program started (nohup) stays ignored.
  struct sigaction before{};
  if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN && handler == on_signal) return;
  sigaction(number, &action, nullptr);
}

}  // namespace

std::atomic<bool>& interrupt_flag() { return g_interrupted; }

const std::atomic<bool>& stop_flag() { return g_own_stop != nullptr ? *g_own_stop : g_interrupted; }

Error given_up() { return {Code::kMissing, "interrupted, nothing was answered", {}, {}}; }

OwnStop::OwnStop(const std::atomic<bool>& flag) : before_(g_own_stop) { g_own_stop = &flag; }
OwnStop::~OwnStop() { g_own_stop = before_; }

int interrupted_exit_code() { return 128 + g_signal.load(); }

void answer_interrupt() {
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  g_interrupted.store(false);
}

void install_signal_handlers() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) handle(number, on_signal);
  handle(SIGALRM, on_time);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);
}

void remember_progress(std::string_view text) {
  g_progress_bytes.store(0);
  const std::size_t bytes = std::min(text.size(), kProgressBytes);
  std::memcpy(g_progress, text.data(), bytes);
  g_progress_bytes.store(bytes);
}

Uninterrupted::Uninterrupted() { ++g_uninterrupted; }
Uninterrupted::~Uninterrupted() { --g_uninterrupted; }

TemporaryName::TemporaryName(std::string_view path) {
  if (path.size() >= kPathBytes) return;
  for (std::size_t i = 0; i < kPaths; ++i) {
    bool free = false;
    if (!g_temporary[i].used.compare_exchange_strong(free, true)) continue;
    std::memcpy(g_temporary[i].text, path.data(), path.size());
    g_temporary[i].text[path.size()] = '\0';
    g_temporary[i].ready.store(true);
    slot_ = static_cast<int>(i);
    return;
  }
}

TemporaryName::~TemporaryName() {
  if (slot_ < 0) return;
  Path& path = g_temporary[static_cast<std::size_t>(slot_)];
  path.ready.store(false);
  path.used.store(false);
}

}  // namespace plimsoll
