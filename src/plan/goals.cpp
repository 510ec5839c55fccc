// SPDX-License-Identifier: Apache-2.0
#include "plan/goals.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/crew.h"

namespace plimsoll::plan {

namespace {

bool is_stopped(const SearchOptions& options) { return options.stop != nullptr && options.stop->load(); }

constexpr std::int64_t kUnit = 1024;         // tokens
constexpr std::int64_t kMost = 1 << 14;      // units
constexpr std::int64_t kChunkTokens = 2048;  // least tokens of a context rank (make_space)

// Lengths that are tried, in units: all up to 256, then 128 between a power of two and the next.
std::int64_t length_at(std::int64_t step) {
  if (step <= 256) return step;
  const std::int64_t octave = (step - 257) / 128 + 1;
  return (256LL << (octave - 1)) + ((step - 257) % 128 + 1) * (1LL << octave);
}
std::int64_t step_at_least(std::int64_t units) {
  std::int64_t step = 1;
  while (length_at(step) < units) ++step;
  return step;
}
const std::int64_t kLastStep = step_at_least(kMost);

// The job and the space of one length.
struct Asked {
  job::Job job;
  Space space;
};

class LengthSearch {
 public:
  LengthSearch(const Question& question, const SearchOptions& options, const Tell& tell)
      : question_(question), options_(options), tell_(tell) {}

  // The highest step that something holds; 0: none.
  std::int64_t run() {
    const Asked* widest = asked(kLastStep);
    for (std::int64_t step = kLastStep; widest == nullptr && step > 0; step /= 2) widest = asked(step);
    if (widest == nullptr) return 0;
    // Splits that share their layers stay together; their groups come in an order that no knob decides, so that few
    // splits are better than all before them.
    std::vector<std::vector<Candidate>> groups;
    for_each_split(widest->space, widest->job, [&groups](const Candidate& c) {
      if (groups.empty() || !same_layout(groups.back().back(), c)) groups.emplace_back();
      groups.back().push_back(c);
    });
    std::vector<std::size_t> order(groups.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [](std::size_t a, std::size_t b) { return mixed(a) < mixed(b); });
    std::atomic<std::size_t> next{0};
    share_work(options_.threads, [&](unsigned worker) {
      Evaluators evaluators;
      for (std::size_t i = next++; i < order.size() && !is_stopped(options_); i = next++)
        for (const Candidate& split : groups[order[i]]) raise(split, evaluators, worker == 0);
    });
    return best_;
  }

 private:
  using Evaluators = std::map<std::int64_t, std::unique_ptr<Evaluator>>;

  static std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }

  // nullptr where no job of this length divides.
  const Asked* asked(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = asked_.try_emplace(step);
    if (is_new) {
      const Question longer = with_length(question_, length_at(step) * kUnit);
      if (auto job = first_job(longer)) {
        Space space = make_space(*job, longer.pinned, longer.space);
        entry->second = std::make_unique<Asked>(Asked{*std::move(job), std::move(space)});
      }
    }
    return entry->second.get();
  }

  // Whether the leanest point of a split holds this length.
  bool holds(const Candidate& split, std::int64_t step, Evaluators& evaluators) {
    if (is_stopped(options_)) return false;
    const Asked* at = asked(step);
    if (at == nullptr) return false;
    std::unique_ptr<Evaluator>& evaluator = evaluators[step];
    if (evaluator == nullptr)
      evaluator = std::make_unique<Evaluator>(at->job, at->space, options_.world, options_.beside);
    const std::int64_t capacity = at->job.cluster.gpu.capacity;
    std::int64_t least = capacity;
    std::optional<Candidate> leanest;
    bool is_hopeless = false;
    for_each_point(at->space, at->job, split, [&](const Candidate& c) {
      // A larger micro-batch needs no less.
      if (is_hopeless || c.micro_batch != at->space.micro_batch.front() || !evaluator->refusal(c).empty()) return;
      if (!evaluator->make(c)) return;
      const auto floor = evaluator->floor(capacity);
      if (!floor) return;
      is_hopeless = *floor > capacity;
      if (*floor > least || !evaluator->allowed()) return;
      const std::int64_t peak = evaluator->peak(least);
      if (peak == kHostTooSmall || peak > least) return;
      least = peak;
      leanest = c;
    });
    return leanest && walked(*evaluator, at->space, options_.beside, *leanest).has_value();
  }

  void raise(const Candidate& split, Evaluators& evaluators, bool tells) {
    std::int64_t low = best_;
    // Context ranks with too little to do are not tried: a wide split starts where it has enough.
    const bool is_open = asked(kLastStep) == nullptr || asked(kLastStep)->space.context.size() > 1;
    if (is_open && split.context > 1)
      low = std::max(low, step_at_least(ceil_div(split.context * kChunkTokens, kUnit)) - 1);
    if (low >= kLastStep || !holds(split, low + 1, evaluators)) return;
    ++low;
    std::int64_t stride = 1;
    while (low + stride <= kLastStep && holds(split, low + stride, evaluators)) {
      low += stride;
      stride *= 2;
    }
    for (std::int64_t high = std::min(low + stride, kLastStep + 1); high - low > 1;) {
      const std::int64_t middle = low + (high - low) / 2;
      (holds(split, middle, evaluators) ? low : high) = middle;
    }
    std::int64_t known = best_;
    while (known < low && !best_.compare_exchange_weak(known, low)) {
    }
    if (tells && tell_) tell_(fmt::format("trying seq_length {}", length_at(low + 1) * kUnit));
  }

  const Question& question_;
  const SearchOptions& options_;
  const Tell& tell_;
  std::mutex mutex_;
  std::map<std::int64_t, std::unique_ptr<Asked>> asked_;  // by step
  std::atomic<std::int64_t> best_{0};
};

// The first count from here on that is a power of two within a node, or whole nodes.
std::int64_t whole(std::int64_t gpus, std::int64_t per_node) {
  if (gpus > per_node) return round_up(gpus, per_node);
  std::int64_t power = 1;
  while (power < gpus) power *= 2;
  return std::min(power, per_node);
}

}  // namespace

Question with_length(const Question& question, std::int64_t tokens) {
  Question with = question;
  with.request = question.request.with("seq_length", std::to_string(tokens));
  with.pinned.insert("seq_length");
  return with;
}

Question with_gpus(const Question& question, std::int64_t gpus) {
  Question with = question;
  with.request = question.request.with("gpus", std::to_string(gpus));
  return with;
}

Longest longest_sequence(const Question& question, const SearchOptions& options, const Tell& tell) {
  const std::int64_t step = LengthSearch(question, options, tell).run();
  if (step == 0) return {};
  const bool is_endless = step >= kLastStep;
  return {length_at(step) * kUnit, (length_at(step + 1) - length_at(step)) * kUnit, is_endless};
}

std::optional<Fewest> fewest_gpus(const Question& question, const SearchOptions& options, std::int64_t least,
                                  std::int64_t most, std::int64_t* without, const Tell& tell) {
  const auto fits_on = [&](std::int64_t gpus) {
    if (tell) tell(fmt::format("trying {} GPUs", gpus));
    const Question asked = with_gpus(question, gpus);
    const auto job = first_job(asked);
    return job && anything_fits(*job, make_space(*job, asked.pinned, asked.space), options);
  };
  const auto first = first_job(question);
  const std::int64_t per_node = first ? std::max<std::int64_t>(1, first->cluster.gpus_per_node) : 8;
  // Doubled until something fits, then counts in between from below: what divides is not monotone, so there is no
  // halving. Sixteen at most.
  constexpr std::int64_t kBetween = 16;
  std::int64_t below = least - 1;
  for (std::int64_t gpus = whole(least, per_node); gpus <= most; gpus = std::max(gpus + 1, std::min(2 * gpus, most))) {
    const bool fits = fits_on(gpus);
    if (is_stopped(options)) return std::nullopt;
    if (!fits) {
      below = gpus;
      if (without != nullptr) *without = gpus;
      continue;
    }
    const std::int64_t step = gpus <= per_node ? 1 : round_up((gpus - below + kBetween - 1) / kBetween, per_node);
    for (std::int64_t fewer = whole(below + 1, per_node); fewer < gpus; fewer = whole(fewer + step, per_node)) {
      if (fits_on(fewer)) return Fewest{fewer, step};
      if (is_stopped(options)) break;  // what was found stands; fewer may do
    }
    return Fewest{gpus, step};
  }
  return std::nullopt;
}

}  // namespace plimsoll::plan
