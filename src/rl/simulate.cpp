// SPDX-License-Identifier: Apache-2.0
#include "rl/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "rl/server_queue.h"

namespace plimsoll::rl {

namespace {

using Id = std::uint32_t;

// Bounds on the work of one simulation: some seconds, some hundred megabytes.
constexpr std::int64_t kMostEvents = 20'000'000;
constexpr std::size_t kMostSamples = 8'000'000;

double real(std::int64_t value) { return static_cast<double>(value); }

enum class GroupState : std::uint8_t { kActive, kReady, kTrained, kDropped };

struct Group {
  Id first = 0;               // its samples are first .. first + group_size - 1
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
  std::vector<Span> spans_;
  std::vector<Load> load_;
  double held_back_since_ = 0;
};

bool Simulator::may_start() const {
  if (trainer_ == TrainerState::kDraining || paused_) return false;
  if (!loop_.in_flight_updates && (trainer_ == TrainerState::kGathering || trainer_ == TrainerState::kUpdating))
    return false;
  const std::int64_t batch = loop_.prompts_per_step;
  switch (loop_.dispatch) {
    case Dispatch::kLevel:
      return real(cut_ - updates_ * loop_.sync_every) <= loop_.limit;
    case Dispatch::kQuota:
      return real(started_ - update_base_) < (1 + loop_.limit) * real(batch * loop_.sync_every) - 1e-9;
    case Dispatch::kBatch: {
      if (started_ % batch != 0) return true;
      const std::int64_t begun = started_ / batch;
      return begun == cut_ && real(begun - updates_ * loop_.sync_every) <= loop_.limit;
    }
  }
  return false;
}

bool Simulator::has_lane(std::size_t server, std::int64_t count) const {
  return loop_.lanes == 0 || used_[server] + count <= loop_.lanes || (used_[server] == 0 && count > loop_.lanes);
}

Id Simulator::start_group() {
  Group group;
  group.first = static_cast<Id>(samples_.size());
  group.generating = group.unrewarded = loop_.group_size;
  group.updates = updates_;
  group.version = version_;
  group.start = now_;
  group.zero_advantage = loop_.zero_advantage > 0 && random_.uniform() < loop_.zero_advantage;
  const auto id = static_cast<Id>(groups_.size());
  const std::int64_t prompt = std::min(loop_.prompt.sample(random_), std::max<std::int64_t>(1, loop_.longest - 1));
  for (std::int64_t i = 0; i < loop_.group_size; ++i) {
    Sample sample;
    sample.group = id;
    sample.prompt = real(prompt);
    sample.length = real(std::min(loop_.completion.sample(random_), loop_.longest - prompt));
    sample.first_of_group = i == 0;
    group.tokens += sample.prompt + sample.length;
    samples_.push_back(sample);
  }
  groups_.push_back(group);
  active_.push_back(id);
  ++started_;
  ++counters_.started;
  return id;
}

// One sample, or one group where lanes are held by groups; false where nothing may start or no lane is free.
bool Simulator::assign_one(std::size_t server) {
  const std::int64_t count = loop_.individual_lanes ? 1 : loop_.group_size;
  if (!has_lane(server, count)) return false;
  Id& open = open_[loop_.prefix_caching ? server : 0];
  if (open == kNone) {
    if (!may_start()) return false;
    open = start_group();
  }
  Group& group = groups_[open];
  used_[server] += count;
  group.server = static_cast<std::int32_t>(server);
  for (std::int64_t i = 0; i < count; ++i) {
    const Id id = group.first + static_cast<Id>(group.assigned++);
    samples_[id].server = static_cast<std::int32_t>(server);
    servers_[server].add(id);
  }
  if (group.assigned == loop_.group_size) open = kNone;
  return true;
}

void Simulator::fill(std::size_t server) {
  if (loop_.lanes == 0) return fill_all();
  bool changed = false;
  while (assign_one(server)) changed = true;
  if (changed) touch(server);
}

void Simulator::fill_all() {
  std::vector<bool> changed(servers_.size(), false);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      if (!assign_one(s)) continue;
      any = true;
      changed[s] = true;
    }
  }
  for (std::size_t s = 0; s < servers_.size(); ++s)
    if (changed[s]) touch(s);
}

void Simulator::touch(std::size_t server) {
  servers_[server].advance(now_);
  if (!paused_) servers_[server].admit(samples_);
  next_[server] = servers_[server].next_event(samples_);
  if (next_[server] < kNever) wakes_.push({next_[server], server});
}

void Simulator::server_event(std::size_t server) {
  servers_[server].advance(now_);
  ended_.clear();
  servers_[server].collect(samples_, ended_);
  const std::vector<Id> ended = ended_;
  for (const Id id : ended) sample_ended(id, server);
  touch(server);
}

void Simulator::sample_ended(Id id, std::size_t server) {
  Group& group = groups_[samples_[id].group];
  samples_[id].server = -1;
  --group.generating;
  if (loop_.individual_lanes) {
    release(server, 1);
  } else if (group.generating == 0) {
    release(server, loop_.group_size);
  }
  if (loop_.reward_seconds > 0) {
    rewards_.emplace_back(now_ + loop_.reward_seconds, id);
  } else {
    rewarded(id);
  }
}

void Simulator::release(std::size_t server, std::int64_t count) {
  const double delay = loop_.prompt_seconds + (loop_.free_after_generation ? 0 : loop_.reward_seconds);
  if (delay > 0) {
    releases_.emplace_back(now_ + delay, std::pair{server, count});
    return;
  }
  used_[server] -= count;
  fill(server);
}

void Simulator::rewarded(Id id) {
  const Id group_id = samples_[id].group;
  Group& group = groups_[group_id];
  if (group.state == GroupState::kActive && --group.unrewarded == 0) group_ended(group_id);
}

void Simulator::drop(Id id, std::int64_t& counter) {
  groups_[id].state = GroupState::kDropped;
  --started_;
  ++counter;
}

void Simulator::group_ended(Id id) {
  Group& group = groups_[id];
  counters_.latency += now_ - group.start;
  ++counters_.finished;
  if (group.zero_advantage) {
    drop(id, counters_.zero);
  } else if (loop_.discards_late && real(cut_ - group.updates * loop_.sync_every) > loop_.limit) {
    drop(id, counters_.late);
  } else {
    group.state = GroupState::kReady;
    ready_.push_back(id);
    if (static_cast<std::int64_t>(ready_.size()) >= loop_.prompts_per_step) {
      const auto end = ready_.begin() + loop_.prompts_per_step;
      batches_.emplace_back(ready_.begin(), end);
      ready_.erase(ready_.begin(), end);
      ++cut_;
      try_train();
    }
    if (loop_.dispatch == Dispatch::kBatch) fill_all();
    return;
  }
  // A dropped group makes room for another.
  if (loop_.dispatch != Dispatch::kLevel) fill_all();
}

void Simulator::cancel(Id id) {
  Group& group = groups_[id];
  const bool held_together = !loop_.individual_lanes && group.generating > 0;
  std::vector<std::size_t> touched;
  for (std::int64_t i = 0; i < group.assigned; ++i) {
    Sample& sample = samples_[group.first + static_cast<Id>(i)];
    if (sample.server < 0) continue;
    const auto server = static_cast<std::size_t>(sample.server);
    servers_[server].advance(now_);
    servers_[server].remove(group.first + static_cast<Id>(i), samples_);
    sample.server = -1;
    if (loop_.individual_lanes) --used_[server];
    if (std::find(touched.begin(), touched.end(), server) == touched.end()) touched.push_back(server);
  }
  if (held_together && group.server >= 0) used_[static_cast<std::size_t>(group.server)] -= loop_.group_size;
  for (Id& open : open_)
    if (open == id) open = kNone;
  drop(id, counters_.cancelled);
  for (const std::size_t server : touched) touch(server);
}

void Simulator::cancel_old() {
  if (loop_.max_off_policy_steps < 0) return;
  const auto is_old = [this](const Group& group) { return updates_ - group.updates > loop_.max_off_policy_steps; };
  for (const Id id : active_) {
    if (!is_old(groups_[id])) break;
    if (groups_[id].state == GroupState::kActive) cancel(id);
  }
  if (!loop_.queue_counts) return;
  std::erase_if(ready_, [&](Id id) {
    if (!is_old(groups_[id])) return false;
    drop(id, counters_.cancelled);
    return true;
  });
}

bool Simulator::servers_empty() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const ServerQueue& server) { return server.running() == 0 && server.waiting() == 0; });
}

void Simulator::try_train() {
  if (trainer_ != TrainerState::kIdle || batches_.empty() || (loop_.colocated && !servers_empty())) return;
  batch_ = std::move(batches_.front());
  batches_.pop_front();
  trainer_ = TrainerState::kTraining;
  trainer_until_ = now_ + loop_.train_seconds;
  span(SpanKind::kTrain, now_, trainer_until_);
  for (const Id id : batch_) {
    Group& group = groups_[id];
    group.state = GroupState::kTrained;
    const auto lag = static_cast<std::size_t>(std::max<std::int64_t>(0, trained_steps_ - group.version));
    if (!measuring_) continue;
    if (staleness_.size() <= lag) staleness_.resize(lag + 1, 0);
    ++staleness_[lag];
  }
}

void Simulator::begin_sync() {
  trainer_ = TrainerState::kGathering;
  trainer_until_ = now_ + std::max(0.0, loop_.sync_seconds - loop_.pause_seconds);
  span(SpanKind::kSync, now_, now_ + loop_.sync_seconds);
}

void Simulator::pause_all(bool paused) {
  paused_ = paused;
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    servers_[s].advance(now_);
    servers_[s].set_paused(paused);
    touch(s);
  }
}

void Simulator::finish_sync() {
  ++updates_;
  version_ = trained_steps_;
  update_base_ = trained_steps_ * loop_.prompts_per_step;
  trainer_ = TrainerState::kIdle;
  trainer_until_ = kNever;
  pause_all(false);
  cancel_old();
  while (!active_.empty() && groups_[active_.front()].state != GroupState::kActive) active_.pop_front();
  try_train();
  fill_all();
}

void Simulator::trainer_event() {
  switch (trainer_) {
    case TrainerState::kTraining:
      ++trained_steps_;
      for (const Id id : batch_) counters_.tokens += loop_.trained_share * groups_[id].tokens;
      events_ = 0;
      trainer_until_ = kNever;
      if (trained_steps_ % loop_.sync_every != 0) {
        trainer_ = TrainerState::kIdle;
        try_train();
      } else if (loop_.in_flight_updates || servers_empty()) {
        begin_sync();
      } else {
        trainer_ = TrainerState::kDraining;
      }
      return;
    case TrainerState::kGathering:
      trainer_ = TrainerState::kUpdating;
      trainer_until_ = now_ + std::min(loop_.pause_seconds, loop_.sync_seconds);
      pause_all(true);
      return;
    case TrainerState::kUpdating:
      finish_sync();
      return;
    case TrainerState::kIdle:
    case TrainerState::kDraining:
      return;
  }
}

void Simulator::count_to(double time) {
  const double passed = time - now_;
  if (trainer_ == TrainerState::kIdle || trainer_ == TrainerState::kDraining) counters_.idle += passed;
  if (trainer_ == TrainerState::kGathering || trainer_ == TrainerState::kUpdating) counters_.sync += passed;
  if (held_back_) counters_.held_back += passed;
}

Counters Simulator::snapshot() {
  Counters result = counters_;
  result.time = now_;
  for (ServerQueue& server : servers_) {
    server.advance(now_);
    const ServerQueue::Totals& totals = server.totals();
    result.servers.busy += totals.busy;
    result.servers.paused += totals.paused;
    result.servers.running += totals.running;
    result.servers.held += totals.held;
    result.servers.held_peak = std::max(result.servers.held_peak, totals.held_peak);
    result.servers.generated += totals.generated;
    result.servers.prefilled += totals.prefilled;
    result.servers.recomputed += totals.recomputed;
    result.servers.preemptions += totals.preemptions;
  }
  for (std::size_t s = 0; s < servers_.size(); ++s) touch(s);
  return result;
}

void Simulator::span(SpanKind kind, double begin, double end) {
  if (options_.timeline && end > begin) spans_.push_back({kind, begin, end});
}

void Simulator::note_load() {
  if (!options_.timeline) return;
  std::int64_t running = 0;
  for (const ServerQueue& server : servers_) running += paused_ ? 0 : server.running();
  if (load_.empty() || load_.back().running != running) load_.push_back({now_, running});
}

Simulation Simulator::measured(const Counters& begin, const Counters& end) const {
  Simulation result;
  const double time = end.time - begin.time;
  const double steps = real(options_.steps);
  const double of_servers = time * real(loop_.servers);
  result.begin = begin.time;
  result.end = end.time;
  result.period = time / steps;
  result.tokens_per_second = (end.tokens - begin.tokens) / time;
  result.generated_per_second = (end.servers.generated - begin.servers.generated) / time;
  result.trainer_idle = (end.idle - begin.idle) / time;
  result.trainer_sync = (end.sync - begin.sync) / time;
  result.server_idle = 1 - (end.servers.busy - begin.servers.busy) / of_servers;
  result.server_paused = (end.servers.paused - begin.servers.paused) / of_servers;
  result.dispatch_paused = (end.held_back - begin.held_back) / time;
  result.mean_running = (end.servers.running - begin.servers.running) / of_servers;
  result.kv_usage = (end.servers.held - begin.servers.held) / of_servers / loop_.kv_tokens;
  result.kv_peak = std::min(1.0, end.servers.held_peak / loop_.kv_tokens);
  result.preemptions_per_step = (end.servers.preemptions - begin.servers.preemptions) / steps;
  const double prefilled = end.servers.prefilled - begin.servers.prefilled;
  if (prefilled > 0) result.recomputed_share = (end.servers.recomputed - begin.servers.recomputed) / prefilled;
  const double started = std::max(1.0, real(end.started - begin.started));
  result.late_share = real(end.late - begin.late) / started;
  result.cancelled_share = real(end.cancelled - begin.cancelled) / started;
  result.zero_share = real(end.zero - begin.zero) / started;
  if (end.finished > begin.finished)
    result.mean_latency = (end.latency - begin.latency) / real(end.finished - begin.finished);
  double trained = 0;
  for (const std::int64_t count : staleness_) trained += real(count);
  for (std::size_t lag = 0; lag < staleness_.size(); ++lag) {
    const double share = trained > 0 ? real(staleness_[lag]) / trained : 0;
    result.staleness.push_back(share);
    result.mean_staleness += share * static_cast<double>(lag);
  }
  result.spans = spans_;
  result.load = load_;
  return result;
}

Simulation Simulator::run() {
  Simulation stuck;
  if (loop_.kv_tokens < real(loop_.longest) + 2 * loop_.block) {
    stuck.stuck = fmt::format("the cache of a server holds {:.0f} tokens, and a sample may need {}", loop_.kv_tokens,
                              loop_.longest);
    return stuck;
  }
  const std::int64_t warm_up =
      std::max<std::int64_t>(1, options_.warm_up + static_cast<std::int64_t>(std::ceil(loop_.limit)));
  // Of a trainer that waits: many times what the samples of a batch and of all lanes can cause.
  const std::int64_t most_events = 400 * loop_.samples() + 40 * loop_.lanes * loop_.servers + 200'000;
  Counters begin;
  fill_all();
  while (trained_steps_ < warm_up + options_.steps) {
    while (!wakes_.empty() && wakes_.top().time != next_[wakes_.top().server]) wakes_.pop();
    double time = wakes_.empty() ? kNever : wakes_.top().time;
    time = std::min(time, trainer_until_);
    if (!rewards_.empty()) time = std::min(time, rewards_.front().first);
    if (!releases_.empty()) time = std::min(time, releases_.front().first);
    const bool waits = trainer_ == TrainerState::kIdle || trainer_ == TrainerState::kDraining;
    if (waits) ++events_;
    if (++all_events_ > kMostEvents || samples_.size() > kMostSamples) {
      stuck.stuck =
          fmt::format("{} steps of this run need more than {} events to simulate", options_.steps, kMostEvents);
      return stuck;
    }
    if (!(time < kNever) || events_ > most_events) {
      stuck.stuck = fmt::format(
          "no batch comes together: of {} groups {} ended too late, {} were cancelled as too old, {} had no advantage",
          counters_.started, counters_.late, counters_.cancelled, counters_.zero);
      return stuck;
    }
    count_to(time);
    now_ = std::max(now_, time);
    const std::int64_t steps_before = trained_steps_;
    if (trainer_until_ <= now_) {
      trainer_event();
    } else if (!rewards_.empty() && rewards_.front().first <= now_) {
      const Id id = rewards_.front().second;
      rewards_.pop_front();
      rewarded(id);
    } else if (!releases_.empty() && releases_.front().first <= now_) {
      const auto [server, count] = releases_.front().second;
      releases_.pop_front();
      used_[server] -= count;
      fill(server);
    } else {
      const std::size_t server = wakes_.top().server;
      wakes_.pop();
      server_event(server);
    }
    if (trainer_ == TrainerState::kDraining && servers_empty()) begin_sync();
    if (loop_.colocated) try_train();
    const bool held_back = !paused_ && !may_start();
    if (held_back != held_back_) {
      if (held_back_) span(SpanKind::kPaused, held_back_since_, now_);
      held_back_since_ = now_;
      held_back_ = held_back;
    }
    note_load();
    if (trained_steps_ != steps_before && trained_steps_ == warm_up) {
      begin = snapshot();
      measuring_ = true;
    }
  }
  if (held_back_) span(SpanKind::kPaused, held_back_since_, now_);
  return measured(begin, snapshot());
}

}  // namespace

Simulation simulate(const Loop& loop, const SimulationOptions& options) { return Simulator(loop, options).run(); }

}  // namespace plimsoll::rl
