// SPDX-License-Identifier: Apache-2.0
// Starts the user's command and stays out of its way: its output reaches the same places byte for byte while a copy is
// kept, a terminal stays a terminal for it, signals that are meant for it reach it, and how it ends is how we end.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::live {

struct Launch {
  std::vector<std::string> words;                                // the command
  std::vector<std::pair<std::string, std::string>> environment;  // set for it, beside our own
  std::string log;                                               // where the copy goes; "": the streams are not touched
  std::function<void(std::int64_t pid)> started;                 // called once, in the caller's thread
};

struct Ending {
  bool started = false;
  int error = 0;            // errno of a start that failed
  int exit_code = 0;        // where no signal ended it
  int signal = 0;           // the one that did; 0: none
  double seconds = 0;       // from start to end
  std::string log_trouble;  // why the copy is not complete; "" where it is

  // As a shell says it.
  [[nodiscard]] int code() const { return signal > 0 ? 128 + signal : exit_code; }
};

// Blocks until the command has ended. Threads must be started with signals blocked, or after it.
[[nodiscard]] Ending run_command(const Launch& launch);

// Ends this program by the signal that ended the command, as if the command had stood in its place. Returns where the
// signal does not end programs.
void end_like(int signal);

}  // namespace plimsoll::live
