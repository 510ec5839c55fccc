// SPDX-License-Identifier: Apache-2.0
// The order of events, and what is measured.
#include "rl/simulate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rl/simulator.h"

namespace plimsoll::rl {

namespace {

constexpr std::size_t kMostSamples = 8'000'000;  // some hundred megabytes

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

void Simulator::count_to(double time) {
  const double passed = time - now_;
  if (trainer_ == TrainerState::kIdle || trainer_ == TrainerState::kDraining) counters_.idle += passed;
  if (trainer_ == TrainerState::kGathering || trainer_ == TrainerState::kUpdating) counters_.sync += passed;
  if (held_back_) counters_.held_back += passed;
}

Counters Simulator::snapshot() {
  Counters result = counters_;
  result.time = now_;
  result.steps = trained_steps_;
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
  result.steps = end.steps - begin.steps;
  result.events = all_events_;
  const double steps = real(result.steps);
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
    if (++all_events_ > options_.most_events || samples_.size() > kMostSamples) {
      // Only whole steps count, so what was measured ends with the last one.
      if (measuring_ && last_whole_.steps - begin.steps >= kFewestSteps) return measured(begin, last_whole_);
      stuck.events = all_events_;
      stuck.too_long = fmt::format("{} steps of this run need more than {} events to simulate", options_.steps,
                                   options_.most_events);
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
    if (trained_steps_ == steps_before) continue;
    if (measuring_ && all_events_ > options_.most_events / 4) last_whole_ = snapshot();
    if (trained_steps_ == warm_up) {
      begin = snapshot();
      measuring_ = true;
    }
  }
  if (held_back_) span(SpanKind::kPaused, held_back_since_, now_);
  return measured(begin, snapshot());
}

Simulation simulate(const Loop& loop, const SimulationOptions& options) { return Simulator(loop, options).run(); }

}  // namespace plimsoll::rl
