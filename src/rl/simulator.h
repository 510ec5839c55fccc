// SPDX-License-Identifier: Apache-2.0
// The state of a simulated loop (simulate.h). Starting groups and what becomes of them is in simulate_rollout.cpp, the
// trainer and its updates in simulate_trainer.cpp, the order of events and what is measured in simulate.cpp.
// Invariants: a group is active until it is ready or dropped; started_ counts groups that were not dropped; used_
// counts the lanes that requests or their rewards hold.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "rl/random.h"
#include "rl/server_queue.h"
#include "rl/simulate.h"

namespace plimsoll::rl {

enum class GroupState : std::uint8_t { kActive, kReady, kTrained, kDropped };

struct Group {
  std::uint32_t first = 0;    // its samples are first .. first + group_size - 1
  std::int64_t assigned = 0;  // samples that have a server
  std::int64_t generating = 0;
  std::int64_t unrewarded = 0;
  std::int64_t updates = 0;  // weight updates before its start
  std::int64_t version = 0;  // trainer steps in the weights that it started on
  std::int32_t server = -1;  // of its lanes, where a group holds them together
  double start = 0;
  double tokens = 0;
  bool zero_advantage = false;
  GroupState state = GroupState::kActive;
};

enum class TrainerState : std::uint8_t { kIdle, kTraining, kDraining, kGathering, kUpdating };

struct Counters {
  std::int64_t steps = 0;  // of the trainer
  double time = 0;
  double tokens = 0;
  double idle = 0;
  double sync = 0;
  double held_back = 0;
  double latency = 0;
  std::int64_t finished = 0;
  std::int64_t started = 0;
  std::int64_t late = 0;
  std::int64_t cancelled = 0;
  std::int64_t zero = 0;
  ServerQueue::Totals servers;
};

// One simulation; run() once.
class Simulator {
 public:
  Simulator(const Loop& loop, const SimulationOptions& options)
      : loop_(loop),
        options_(options),
        random_(options.seed),
        next_(static_cast<std::size_t>(loop.servers), kNever),
        used_(static_cast<std::size_t>(loop.servers), 0),
        open_(static_cast<std::size_t>(loop.servers), kNone) {
    for (std::int64_t s = 0; s < loop.servers; ++s) servers_.emplace_back(loop_);
  }

  Simulation run();

 private:
  using Id = std::uint32_t;
  static constexpr Id kNone = ~Id{0};
  struct Wake {
    double time;
    std::size_t server;
    friend bool operator>(const Wake& a, const Wake& b) {
      return a.time != b.time ? a.time > b.time : a.server > b.server;
    }
  };

  // Starting groups.
  [[nodiscard]] bool may_start() const;
  [[nodiscard]] bool has_lane(std::size_t server, std::int64_t count) const;
  bool assign_one(std::size_t server);
  Id start_group();
  void fill(std::size_t server);
  void fill_all();
  // What happens.
  void touch(std::size_t server);
  void server_event(std::size_t server);
  void sample_ended(Id id, std::size_t server);
  void release(std::size_t server, std::int64_t count);
  void rewarded(Id id);
  void group_ended(Id id);
  void drop(Id id, std::int64_t& counter);
  void cancel(Id id);
  void cancel_old();
  // Trainer.
  void try_train();
  void trainer_event();
  void begin_sync();
  void finish_sync();
  void pause_all(bool paused);
  [[nodiscard]] bool servers_empty() const;
  // Measuring.
  void count_to(double time);
  [[nodiscard]] Counters snapshot();
  void span(SpanKind kind, double begin, double end);
  void note_load();
  [[nodiscard]] Simulation measured(const Counters& begin, const Counters& end) const;

  const Loop loop_;
  const SimulationOptions options_;
  Random random_;
  double now_ = 0;
  std::vector<ServerQueue> servers_;
  std::vector<double> next_;
  std::vector<std::int64_t> used_;  // lanes
  std::vector<Id> open_;            // group that is still being assigned; [0] for all servers without prefix caching
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  std::deque<std::pair<double, Id>> rewards_;
  std::deque<std::pair<double, std::pair<std::size_t, std::int64_t>>> releases_;  // time, server, lanes
  std::vector<Sample> samples_;
  std::vector<Group> groups_;
  std::deque<Id> active_;  // in the order of their start; ended ones are dropped at the front
  std::deque<Id> ready_;
  std::deque<std::vector<Id>> batches_;
  std::vector<Id> ended_;

  TrainerState trainer_ = TrainerState::kIdle;
  double trainer_until_ = kNever;
  std::vector<Id> batch_;
  std::int64_t trained_steps_ = 0;
  std::int64_t updates_ = 0;
  std::int64_t version_ = 0;      // trainer steps in the servers' weights
  std::int64_t cut_ = 0;          // batches
  std::int64_t started_ = 0;      // groups, less dropped ones
  std::int64_t update_base_ = 0;  // groups trained at the last update
  bool paused_ = false;
  bool held_back_ = false;   // nothing new may start, seen at the last event
  std::int64_t events_ = 0;  // while the trainer waits for its next batch
  std::int64_t all_events_ = 0;
  Counters counters_;
  std::vector<std::int64_t> staleness_;
  bool measuring_ = false;
  std::int64_t open_groups_ = 0;  // entries of open_ that are not kNone
  Counters last_whole_;           // at the end of the last step, where the budget may end the run
  std::vector<Span> spans_;
  std::vector<Load> load_;
  double held_back_since_ = 0;
};

}  // namespace plimsoll::rl
