// SPDX-License-Identifier: Apache-2.0
// What a person sees who waits: once an answer takes longer than a second, one line on the terminal that moves until
// the answer is there, with the share that is done where that is known.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "answer/progress.h"

namespace plimsoll::cli {

// "[######..................]  25 % answered 10 of 40, 3 s", no longer than `width` columns where that is above 0.
// Without a share a mark runs through the bar instead, one place at every `tick`.
[[nodiscard]] std::string bar_text(const answer::HowFar& how_far, std::chrono::seconds waited, int tick, int width);

// Lives while a verb works. It writes to standard error, which has to be a terminal that can take a line back.
class Waiting {
 public:
  // `name` is said until there is more to say.
  explicit Waiting(std::string_view name);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void tell(const answer::HowFar& how_far);
  // Takes the line back, because something is printed there that stays; it comes again when the next second is over.
  void make_room();

 private:
  void live();
  void draw();
  void take_back();

  std::mutex mutex_;
  std::condition_variable changed_;
  answer::HowFar how_far_;
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point not_before_;
  int tick_ = 0;
  bool is_shown_ = false;
  bool is_over_ = false;
  std::thread thread_;
};

// Whether standard error is a terminal on which a line can be taken back.
[[nodiscard]] bool can_show_waiting();

}  // namespace plimsoll::cli
