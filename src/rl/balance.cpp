// SPDX-License-Identifier: Apache-2.0
#include "rl/balance.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::rl {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Seconds until the last of n samples that start together on one server ends: the batch thins out as samples end.
double drain(const Loop& loop, double n, double last) {
  constexpr int kSlices = 64;
  double seconds = 0;
  double before = 0;
  for (int i = 1; i <= kSlices; ++i) {
    const double share = static_cast<double>(i) / kSlices;
    const double length = last * share;
    const double middle = 0.5 * (before + length);
    const double running = std::max(1.0, n * (1 - loop.completion.cumulative(middle)));
    const double context = loop.prompt.mean() + middle;
    seconds += (length - before) * loop.speed.decode(running, context).seconds;
    before = length;
  }
  return seconds;
}

// A batch whose samples all start together and are all waited for.
double generate_together(const Loop& loop, const Balance& balance, double samples) {
  const double per_server = std::ceil(samples / real(loop.servers));
  const double at_once = std::min(per_server, balance.concurrency);
  const double last = loop.completion.expected_maximum(samples);
  const double prefill =
      per_server * loop.prompt_share() * loop.prefill_seconds(loop.prompt.mean(), loop.prompt.mean() / 2);
  const double waves = (per_server - at_once) / at_once * loop.completion.mean() *
                       loop.speed.decode(at_once, balance.mean_context).seconds;
  return prefill + waves + drain(loop, at_once, last);
}

// Telescope's rule: a group is late once limit + 1 batches were cut after the update that it started on (facts
// rl-and-inference.md 3). Groups start evenly between two updates; the next batch is cut `wait` after one, the others
// a period apart.
struct Deadline {
  const Loop& loop;
  double period, train, seconds_per_token;

  static constexpr int kStarts = 8;
  // Tokens that a sample has time for whose group starts in the i-th part of the period.
  [[nodiscard]] double longest(int i) const {
    const double wait = std::max(0.0, period - train);
    return std::max(0.0, wait + loop.limit * period - (i + 0.5) / kStarts * period) / seconds_per_token;
  }
  // Of all groups, those that start there and of which every sample ends in time, where a share of samples does.
  [[nodiscard]] double groups(double samples_in_time) const {
    return std::pow(samples_in_time, real(loop.group_size)) / kStarts;
  }
};

// The share of groups that end in time.
double kept_in_time(const Deadline& deadline) {
  double share = 0;
  for (int i = 0; i < Deadline::kStarts; ++i)
    share += std::max(0.0, deadline.groups(deadline.loop.completion.cumulative(deadline.longest(i))));
  return share;
}

// Mean tokens of the samples of such groups: the integral of what lies above each length.
double kept_completion(const Deadline& deadline) {
  constexpr int kSlices = 32;
  const auto& lengths = deadline.loop.completion;
  double share = 0;
  double sum = 0;
  for (int i = 0; i < Deadline::kStarts; ++i) {
    const double longest = deadline.longest(i);
    const double below = lengths.cumulative(longest);
    const double in_time = deadline.groups(below);
    if (in_time <= 0) continue;
    const double top = std::min(longest, lengths.quantile(1));
    double mean = 0;
    for (int k = 0; k < kSlices; ++k)
      mean += top / kSlices * (1 - lengths.cumulative((k + 0.5) / kSlices * top) / below);
    share += in_time;
    sum += in_time * mean;
  }
  return share > 0 ? sum / share : 0;
}

// The period at which the groups that are kept just make a batch: it grows with the waste, and the waste falls with it.
void discard_late(const Loop& loop, Balance& result, double started, double pause) {
  const double per_token = result.turn / loop.completion.mean();
  const double least = std::max(started / result.samples_per_second + pause, result.train);
  double low = least;
  double high = 64 * least;
  const auto needed = [&](double period) {
    const double share = std::max(1e-3, kept_in_time({loop, period, result.train, per_token}));
    return std::max(started / result.samples_per_second / share + pause, result.train);
  };
  for (int i = 0; i < 30; ++i) {
    const double middle = 0.5 * (low + high);
    (needed(middle) > middle ? low : high) = middle;
  }
  result.period = needed(least) <= least ? least : high;
  const Deadline deadline{loop, result.period, result.train, per_token};
  result.generate = result.period - pause;
  // A trainer that is the slower side lets the queue fill and the waste grow up to what generation has to spare.
  const bool spare = result.period <= result.train * (1 + 1e-9);
  if (spare) result.generate = started / result.samples_per_second;
  result.late_share = 1 - kept_in_time(deadline);
  if (const double completion = kept_completion(deadline); completion > 0)
    result.tokens_per_step = real(loop.samples()) * (loop.prompt.mean() + completion);
}

}  // namespace

std::string_view text_of(Limit limit) {
  switch (limit) {
    case Limit::kRollout:
      return "rollout";
    case Limit::kTrainer:
      return "trainer";
    case Limit::kKvCache:
      return "KV cache";
    case Limit::kLanes:
      return "lanes";
    case Limit::kTail:
      return "longest samples";
    case Limit::kWeightSync:
      return "weight sync";
    case Limit::kEnvironment:
      return "environment";
  }
  return {};
}

double kv_concurrency(const Loop& loop) {
  const double prompt = loop.prompt.mean() * loop.prompt_share();
  const double o = loop.completion.mean();
  // A running sample is met in proportion to its length, so its context is p + E[o^2] / 2 E[o]
  // (facts rl-and-inference.md 7).
  const double held = prompt + loop.completion.mean_square() / (2 * o) + loop.block / 2;
  const double deviation = std::hypot(loop.completion.deviation(), o / std::sqrt(12.0));
  // held * C + 2 deviation sqrt(C) = tokens, solved for sqrt(C).
  const double root = (-deviation + std::sqrt(deviation * deviation + held * loop.kv_tokens)) / held;
  return std::max(1.0, root * root);
}

Balance balance(const Loop& loop) {
  Balance result;
  const double p = loop.prompt.mean();
  const double o = loop.completion.mean();
  result.mean_context = p + loop.completion.mean_square() / (2 * o);
  result.kv_concurrency = kv_concurrency(loop);
  const double lanes = loop.lanes > 0 ? real(std::min(loop.lanes, loop.max_running)) : real(loop.max_running);
  result.concurrency = std::min(lanes, result.kv_concurrency);
  if (loop.dispatch == Dispatch::kQuota && loop.limit > 0) {
    // Of the (1 + limit) batches that a quota allows half a batch is with the trainer on average.
    const double allowed = (loop.limit + 0.5) * real(loop.samples() * loop.sync_every) / real(loop.servers);
    result.concurrency = std::clamp(allowed, 1.0, result.concurrency);
  }
  result.decode_step = loop.speed.decode(result.concurrency, result.mean_context).seconds;
  const double prefill = loop.prefill_seconds(p, p / 2) * loop.prompt_share();
  // A lane's turn: decoding, its own and its neighbours' prefills, and what it waits for outside the server.
  const double outside = loop.prompt_seconds + (loop.free_after_generation ? 0 : loop.reward_seconds);
  const double turn = o * result.decode_step + result.concurrency * prefill;
  result.turn = turn + outside;
  result.samples_per_second = real(loop.servers) * result.concurrency / result.turn;
  const double kept = 1 - loop.zero_advantage;
  const double started = real(loop.samples()) / kept;
  result.tokens_per_step = real(loop.samples()) * (p + o);
  const double sync = loop.sync_seconds / real(loop.sync_every);
  const double pause = loop.pause_seconds / real(loop.sync_every);
  result.train = loop.train_seconds + sync;
  // Servers that run empty before an update wait for their longest sample, however far they may be ahead.
  const bool together = loop.limit == 0 || loop.dispatch == Dispatch::kBatch || !loop.in_flight_updates;
  if (together) {
    result.generate = generate_together(loop, result, started) + loop.reward_seconds;
    if (loop.limit == 0) {
      result.period = result.generate + result.train;
    } else if (loop.in_flight_updates) {
      result.period = std::max(result.generate + pause, result.train);
    } else {
      result.period = std::max(result.generate, loop.train_seconds) + sync;
    }
  } else {
    result.generate = started / result.samples_per_second;
    result.period = std::max(result.generate + pause, result.train);
    if (loop.discards_late && !loop.completion.is_constant()) discard_late(loop, result, started, pause);
  }
  result.tokens_per_step *= loop.trained_share;
  result.tokens_per_second = result.tokens_per_step / result.period;
  if (!together && result.train >= result.generate + pause) {
    result.limit = sync > 0.5 * result.train ? Limit::kWeightSync : Limit::kTrainer;
  } else if (loop.limit == 0 && result.train > result.generate) {
    result.limit = Limit::kTrainer;
  } else if (together) {
    result.limit = Limit::kTail;
  } else if (outside > 0.5 * turn) {
    result.limit = Limit::kEnvironment;
  } else if (result.kv_concurrency < lanes) {
    result.limit = Limit::kKvCache;
  } else if (loop.lanes > 0 && loop.lanes < loop.max_running && lanes < 0.6 * result.kv_concurrency) {
    result.limit = Limit::kLanes;
  }
  return result;
}

}  // namespace plimsoll::rl
