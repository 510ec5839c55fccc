// SPDX-License-Identifier: Apache-2.0
#include "rl/server_queue.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::rl {

namespace {

constexpr double kStepEpsilon = 1e-6;  // of a step: what rounding may leave of the last one

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

void ServerQueue::advance(double time) {
  double left = time - clock_;
  if (left <= 0) return;
  clock_ = time;
  totals_.running += left * real(running_);
  if (paused_) {
    totals_.paused += left;
    totals_.held += left * held_tokens();
    return;
  }
  if (running_ == 0) return;
  totals_.busy += left;
  const double stalled = std::min(left, stall_);
  stall_ -= stalled;
  left -= stalled;
  const double steps = steps_in(left);
  const double grown = steps * real(running_);
  totals_.held += (stalled + left) * (held_tokens() + grown / 2);
  steps_ += steps;
  step_seconds_ += slope_ * steps;
  held_ += grown;
  contexts_ += grown;
  totals_.generated += grown;
  totals_.held_peak = std::max(totals_.held_peak, held_tokens());
}

// Steps grow longer with their contexts: n steps take n * first + n^2 / 2 * slope.
double ServerQueue::steps_in(double seconds) const {
  if (step_seconds_ <= 0) return 0;
  if (slope_ <= 0) return seconds / step_seconds_;
  return 2 * seconds / (step_seconds_ + std::sqrt(step_seconds_ * step_seconds_ + 2 * slope_ * seconds));
}

void ServerQueue::admit(std::vector<Sample>& samples) {
  while (!waiting_.empty() && running_ < loop_->max_running) {
    const std::uint32_t id = waiting_.front();
    Sample& sample = samples[id];
    const double needs = prompt_held(sample) + sample.done;
    // An empty server takes any request: Loop::longest fits the cache.
    if (running_ > 0 && needs + 1.5 * loop_->block > free_tokens()) return;
    waiting_.pop_front();
    const bool cached = loop_->prefix_caching && !sample.first_of_group;
    const double tokens = (cached ? 0 : sample.prompt) + sample.done;
    stall_ += loop_->prefill_seconds(tokens, 0.5 * (sample.prompt + sample.done));
    totals_.prefilled += tokens;
    totals_.recomputed += sample.turn > 0 ? tokens : 0;
    sample.start = steps_;
    held_ += needs;
    contexts_ += sample.prompt + sample.done;
    ++running_;
    endings_.push({steps_ + sample.length - sample.done, id, sample.turn});
    order_.emplace_back(id, sample.turn);
  }
}

void ServerQueue::leave(Sample& sample) {
  sample.done += steps_ - sample.start;
  --running_;
  held_ -= prompt_held(sample) + sample.done;
  contexts_ -= sample.prompt + sample.done;
  ++sample.turn;
  if (running_ > 0) return;
  held_ = contexts_ = stall_ = 0;  // nothing is left of rounding
  order_.clear();
}

void ServerQueue::drop_stale(const std::vector<Sample>& samples) {
  while (!endings_.empty() && samples[endings_.top().id].turn != endings_.top().turn) endings_.pop();
}

void ServerQueue::preempt_newest(std::vector<Sample>& samples) {
  while (!order_.empty()) {
    const auto [id, turn] = order_.back();
    order_.pop_back();
    if (samples[id].turn != turn) continue;
    leave(samples[id]);
    waiting_.push_front(id);
    ++totals_.preemptions;
    return;
  }
}

void ServerQueue::collect(std::vector<Sample>& samples, std::vector<std::uint32_t>& ended) {
  for (drop_stale(samples); !endings_.empty() && endings_.top().step <= steps_ + kStepEpsilon; drop_stale(samples)) {
    const std::uint32_t id = endings_.top().id;
    endings_.pop();
    leave(samples[id]);
    samples[id].done = samples[id].length;
    ended.push_back(id);
  }
  while (running_ > 1 && free_tokens() < kStepEpsilon * real(running_)) preempt_newest(samples);
  if (order_.size() > 64 && order_.size() > 4 * static_cast<std::size_t>(running_))
    std::erase_if(order_, [&](const auto& entry) { return samples[entry.first].turn != entry.second; });
}

void ServerQueue::remove(std::uint32_t id, std::vector<Sample>& samples) {
  const auto at = std::find(waiting_.begin(), waiting_.end(), id);
  if (at != waiting_.end()) {
    waiting_.erase(at);
    ++samples[id].turn;
  } else {
    leave(samples[id]);
  }
}

double ServerQueue::next_event(const std::vector<Sample>& samples) {
  if (paused_ || running_ == 0) return kNever;
  drop_stale(samples);
  const double to_end = std::max(0.0, endings_.top().step - steps_);
  const double batch = real(running_);
  double stride = to_end;
  if (running_ > 1) stride = std::min(stride, std::max(0.0, free_tokens() / batch));
  step_seconds_ = loop_->speed.decode(batch, contexts_ / batch).seconds;
  const double last = stride > 0 ? loop_->speed.decode(batch, contexts_ / batch + stride).seconds : step_seconds_;
  slope_ = stride > 0 ? std::max(0.0, (last - step_seconds_) / stride) : 0;
  return clock_ + stall_ + stride * (step_seconds_ + 0.5 * slope_ * stride);
}

}  // namespace plimsoll::rl
