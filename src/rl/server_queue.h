// SPDX-License-Identifier: Apache-2.0
// One server of the simulation: requests that run, requests that wait, and the decode steps between two events taken
// in one stride. Admission and preemption are vLLM's: a waiting request starts when its prompt fits, the newest one
// gives up its blocks when none is left, and is computed again from the start later (facts rl-and-inference.md 4).
// Invariant: held_ and contexts_ are the sums over what runs, and running_ == what the heap holds that is not stale.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <vector>

#include "rl/loop.h"

namespace plimsoll::rl {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct Sample {
  std::uint32_t group = 0;
  std::uint32_t turn = 0;  // rises when it leaves a server: entries of heaps with another turn are stale
  double prompt = 0;       // tokens
  double length = 0;       // of the completion
  double done = 0;         // tokens generated before its present turn
  double start = 0;        // step of the server at which that turn began
  std::int32_t server = -1;
  bool first_of_group = false;  // pays for the prompt where prefixes are cached
};

class ServerQueue {
 public:
  explicit ServerQueue(const Loop& loop) : loop_(&loop) {}

  // Brings the clock to `time`.
  void advance(double time);
  // A request arrives; it runs as soon as admit() finds room.
  void add(std::uint32_t id) { waiting_.push_back(id); }
  void admit(std::vector<Sample>& samples);
  // Requests whose last token is there, taken out; then room is made if the cache is full.
  void collect(std::vector<Sample>& samples, std::vector<std::uint32_t>& ended);
  // Takes a request out wherever it is.
  void remove(std::uint32_t id, std::vector<Sample>& samples);
  void set_paused(bool paused) { paused_ = paused; }

  // When something happens here by itself; advance() must be at the present.
  [[nodiscard]] double next_event(const std::vector<Sample>& samples);

  [[nodiscard]] std::int64_t running() const { return running_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] double held_tokens() const { return held_ + static_cast<double>(running_) * loop_->block / 2; }

  struct Totals {
    double busy = 0;     // seconds with something running and not paused
    double paused = 0;   // seconds
    double running = 0;  // request seconds
    double held = 0;     // token seconds
    double held_peak = 0;
    double generated = 0;  // tokens
    double prefilled = 0;
    double recomputed = 0;
    double preemptions = 0;
  };
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  struct Ending {
    double step;
    std::uint32_t id;
    std::uint32_t turn;
    friend bool operator>(const Ending& a, const Ending& b) { return a.step != b.step ? a.step > b.step : a.id > b.id; }
  };

  [[nodiscard]] double steps_in(double seconds) const;
  void leave(Sample& sample);
  void preempt_newest(std::vector<Sample>& samples);
  [[nodiscard]] double free_tokens() const { return loop_->kv_tokens - held_tokens(); }
  [[nodiscard]] double prompt_held(const Sample& sample) const { return sample.prompt * loop_->prompt_share(); }
  void drop_stale(const std::vector<Sample>& samples);

  const Loop* loop_;
  double clock_ = 0;
  double steps_ = 0;
  double stall_ = 0;         // seconds of prefill before the next decode step
  double step_seconds_ = 0;  // of the next decode step
  double slope_ = 0;         // by which each step is longer than the one before
  bool paused_ = false;
  std::int64_t running_ = 0;
  double held_ = 0;      // tokens of cache
  double contexts_ = 0;  // tokens that a decode step reads
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order_;  // id and turn, by admission
  std::deque<std::uint32_t> waiting_;
  Totals totals_;
};

}  // namespace plimsoll::rl
