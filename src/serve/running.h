// SPDX-License-Identifier: Apache-2.0
// The questions that are being answered, so that one can be given up: its asker has turned the knob again, pressed
// Cancel, or the server ends.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <utility>

namespace plimsoll::serve {

class Running {
 public:
  struct Question {
    Question(std::string its_name, bool given_up) : name(std::move(its_name)), is_given_up(given_up) {}

    std::string name;
    std::atomic<bool> is_given_up;
  };

  // A question, while it is being answered, under the name that its asker gave it; an empty name can be given up only
  // with all others.
  class Entry {
   public:
    Entry(Running& running, const std::string& name);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    [[nodiscard]] const std::atomic<bool>& flag() const { return place_->is_given_up; }

   private:
    Running& running_;
    std::list<Question>::iterator place_;
  };

  // A name that has not begun is remembered for a while: its question may come over another connection, later.
  void give_up(const std::string& name);
  // Also every question that begins from now on.
  void give_up_all();

 private:
  static constexpr std::size_t kRemembered = 64;

  std::mutex mutex_;
  bool is_ending_ = false;
  std::list<Question> questions_;
  std::deque<std::string> early_;  // given up before they began; oldest first
};

}  // namespace plimsoll::serve
