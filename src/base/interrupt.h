// SPDX-License-Identifier: Apache-2.0
// Signals that ask the program to end (Ctrl-C, TERM, HUP). Work that can say what it knows so far looks at
// interrupted() and returns; work that does not is ended after kGrace, so that every signal is answered within
// 200 ms. Nothing is ended inside an Uninterrupted section: there, files change their names.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

// What is left of 200 ms for printing and for the machine's own delays.
inline constexpr std::chrono::milliseconds kGrace{120};

// Set by the handlers, and by tests.
[[nodiscard]] std::atomic<bool>& interrupt_flag();
// What work of this thread looks at: the flag of its OwnStop where one lives, else the handlers'.
[[nodiscard]] const std::atomic<bool>& stop_flag();
[[nodiscard]] inline bool interrupted() { return stop_flag().load(std::memory_order_relaxed); }
// Fast loops look once in so many rounds.
inline constexpr std::size_t kLookEvery = std::size_t{1} << 16;
// What work says that was given up, instead of an answer.
[[nodiscard]] Error given_up();
// The exit code that a shell expects after the signal that came: 130 for Ctrl-C.
[[nodiscard]] int interrupted_exit_code();

// For work that a signal ends in good order, such as a server: it was asked to end, has ended, and the program goes on.
// To be called before its Uninterrupted section ends.
void answer_interrupt();

// Once, at the start of the program: handlers, and no death from a closed pipe or a limit on file sizes, which
// become errors of the write that met them.
void install_signal_handlers();

// While one lives, the work of this thread and of those that share_work() starts for it ends when `flag` is set, and
// not by a signal: a question of the page that nobody waits for any more. Whoever makes one sets `flag` when a signal
// comes.
class OwnStop {
 public:
  explicit OwnStop(const std::atomic<bool>& flag);
  ~OwnStop();
  OwnStop(const OwnStop&) = delete;
  OwnStop& operator=(const OwnStop&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// What an interrupted program says that it was doing: "considered 12,000 configurations". One line, kept short.
void remember_progress(std::string_view text);

// While one lives, a signal waits.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

// A file under a temporary name, removed when the program is ended by a signal while this lives.
class TemporaryName {
 public:
  explicit TemporaryName(std::string_view path);
  ~TemporaryName();
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

 private:
  int slot_ = -1;  // -1: all places are taken, and the file is removed by its owner only
};

}  // namespace plimsoll
