// SPDX-License-Identifier: Apache-2.0
// The trainer: batches, weight updates, and servers that stand still for them.
#include <algorithm>

#include "rl/simulator.h"

namespace plimsoll::rl {

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

}  // namespace plimsoll::rl
