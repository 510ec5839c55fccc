// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "rl/observe/readers.h"

namespace plimsoll::rl {

void Timeline::cover(double time) {
  first_ = std::min(first_.value_or(time), time);
  last_ = std::max(last_.value_or(time), time);
}

bool Timeline::add(const Event& event, const Place& place, Measures& measures) {
  const auto valid = [](const std::optional<double>& time) { return time && *time > 0 && *time < 1e12; };
  const bool has_interval = valid(event.start) && valid(event.end) && *event.end >= *event.start;
  const double seconds = has_interval ? *event.end - *event.start : 0;
  if (!valid(event.time) && !has_interval) return false;
  const double time = valid(event.time) ? *event.time : *event.end;
  const bool is_trainer = event.source == "trainer";
  const bool is_pause = event.type == "rollout_paused_max_async";
  const bool is_resume = event.type == "rollout_resumed_max_async";
  const bool is_discard = event.type == "rollout_discarded_max_async";
  const bool is_environment = event.type == "env_response" || event.type == "reward";
  const bool is_generation = event.type == "generation";
  if (!is_trainer && !is_pause && !is_resume && !is_discard && !is_environment && !is_generation &&
      event.source != "orchestrator")
    return false;
  measures.vote(Framework::kTelescope);
  cover(time);
  if (has_interval) {
    cover(*event.start);
    cover(*event.end);
  }
  place_ = place;
  if (is_pause) {
    measures.pause_events.add(1, place);
    if (!paused_since_) paused_since_ = time;
  }
  if (is_resume && paused_since_) {
    paused_ += std::max(0.0, time - *paused_since_);
    paused_since_.reset();
  }
  if (is_discard) measures.stale_events.add(1, place);
  if (is_environment) environment_ += seconds;
  if (is_generation) generation_ += seconds;
  if (is_trainer && event.depth == 0 && event.rank <= 0) {
    trainer_ += seconds;
    ++trainer_events_;
    if (event.type == "weight_broadcast") sync_ += seconds;
  }
  return true;
}

void Timeline::finish(Measures& measures) {
  if (first_ && *last_ > *first_) {
    const double span = *last_ - *first_;
    if (paused_since_) paused_ += *last_ - *paused_since_;
    const auto share = [span](double part) { return std::clamp(part / span, 0.0, 1.0); };
    if (measures.pause_events.count > 0 || trainer_events_ > 0) measures.rollout_paused.add(share(paused_), place_);
    if (trainer_events_ > 1) {
      measures.trainer_wait.add(1 - share(trainer_), place_);
      measures.weight_sync.add(share(sync_), place_);
    }
    if (environment_ + generation_ > 0) measures.environment.add(environment_ / (environment_ + generation_), place_);
  }
  *this = Timeline{};
}

}  // namespace plimsoll::rl
