// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "rl/frameworks/names.h"
#include "rl/observe/observer.h"

namespace plimsoll::rl {

namespace {

// A synchronous step has no waiting; the phase that takes more than half of it bounds it.
constexpr double kLargerPhase = 0.5;
// Running requests on average over their maximum from which on lanes count as all busy, where their number is unknown.
constexpr double kAllBusy = 0.95;
constexpr std::int64_t kEnoughSamples = 5;

class Judge {
 public:
  Judge(const Measures& measures, const ObserveOptions& options) : m_(measures), options_(options) {
    result_.framework = options.framework ? options.framework : recognised();
  }

  Observation run() && {
    start_up();
    // What bounds the pace, the larger share first; then why generation is slow.
    std::vector<std::pair<double, Finding>> pace;
    share(pace, Bottleneck::kRollout, m_.trainer_wait, "the trainer waits for samples {:.0f} % of a step");
    share(pace, Bottleneck::kTrainer, m_.rollout_paused, "generation stands still for {:.0f} % of the time");
    share(pace, Bottleneck::kWeightSync, m_.weight_sync, "weight synchronisation takes {:.0f} % of a step");
    phases(pace);
    std::stable_sort(pace.begin(), pace.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Finding> causes;
    kv_cache(causes);
    lanes(causes);
    environment(causes);
    // A cause says more than "generation is slow", and comes first where generation is what bounds the run.
    const bool causes_first = pace.empty() || pace.front().second.bottleneck == Bottleneck::kRollout;
    if (causes_first) append(causes);
    for (auto& [score, finding] : pace) result_.findings.push_back(std::move(finding));
    if (!causes_first) append(causes);
    for (Finding& finding : result_.findings) {
      if (finding.advice.empty()) finding.advice = advice_for(finding.bottleneck, result_.framework);
      for (std::string& note : notes_for(finding.bottleneck, result_.framework))
        finding.notes.push_back(std::move(note));
    }
    what_was_seen();
    verdict();
    warnings();
    return std::move(result_);
  }

 private:
  Evidence at(const Place& place, std::string text, double value, std::optional<double> threshold = {}) const {
    return {std::move(text), m_.files.empty() ? std::string{} : m_.files[place.file], place.line, value, threshold};
  }

  void append(const std::vector<Finding>& findings) {
    result_.findings.insert(result_.findings.end(), findings.begin(), findings.end());
  }

  std::optional<Framework> recognised() const {
    const auto most = std::max_element(m_.votes.begin(), m_.votes.end());
    if (*most == 0) return std::nullopt;
    return static_cast<Framework>(most - m_.votes.begin());
  }

  void start_up() {
    for (const StartUpFailure& failure : m_.failures) {
      Finding finding;
      finding.bottleneck = Bottleneck::kStartUp;
      finding.evidence.push_back(at(failure.place, failure.text, 0));
      const std::string_view knob = failure.key.empty()
                                        ? std::string_view{}
                                        : knob_in(result_.framework.value_or(Framework::kGeneric), failure.key);
      finding.advice.push_back(
          {std::string{knob.empty() ? std::string_view{failure.key} : knob}, "change", failure.fix, failure.key, {}});
      result_.findings.push_back(std::move(finding));
    }
  }

  void share(std::vector<std::pair<double, Finding>>& pace, Bottleneck bottleneck, const Tally& tally,
             fmt::format_string<double> text) const {
    if (tally.count == 0 || tally.mean() <= kMuchWaiting) return;
    Finding finding;
    finding.bottleneck = bottleneck;
    finding.evidence.push_back(at(tally.at_maximum,
                                  fmt::format("{} on average over {} (threshold {:.0f} %); the most here",
                                              fmt::format(text, 100 * tally.mean()), steps(tally), 100 * kMuchWaiting),
                                  tally.mean(), kMuchWaiting));
    pace.emplace_back(tally.mean(), std::move(finding));
  }

  static std::string steps(const Tally& tally) {
    return tally.count == 1 ? "one reading" : fmt::format("{} readings", tally.count);
  }

  void phases(std::vector<std::pair<double, Finding>>& pace) const {
    if (m_.trainer_wait.count > 0 || m_.rollout_paused.count > 0) return;
    const auto add = [&](Bottleneck bottleneck, const Tally& tally, std::string_view phase) {
      if (tally.count == 0 || tally.mean() <= kLargerPhase) return;
      Finding finding;
      finding.bottleneck = bottleneck;
      finding.evidence.push_back(at(tally.at_maximum,
                                    fmt::format("{} takes {:.0f} % of a synchronous step on average over {} (threshold "
                                                "{:.0f} %); the most here",
                                                phase, 100 * tally.mean(), steps(tally), 100 * kLargerPhase),
                                    tally.mean(), kLargerPhase));
      pace.emplace_back(tally.mean(), std::move(finding));
    };
    add(Bottleneck::kRollout, m_.generation_phase, "generation");
    add(Bottleneck::kTrainer, m_.training_phase, "training");
  }

  void kv_cache(std::vector<Finding>& causes) const {
    Finding finding;
    finding.bottleneck = Bottleneck::kKvCache;
    if (const double total = m_.preemptions.total(); total > 0)
      finding.evidence.push_back(
          at(*m_.preemptions.place(), fmt::format("{:.0f} requests were preempted (threshold 0)", total), total, 0));
    if (m_.preempted.count > 0)
      finding.evidence.push_back(
          at(m_.preempted.first,
             fmt::format("{:.0f} preemptions were reported (threshold 0); the first here", m_.preempted.sum),
             m_.preempted.sum, 0));
    if (m_.pressed.count > 0)
      finding.evidence.push_back(at(
          m_.pressed.at_maximum,
          fmt::format("the KV cache is more than {:.0f} % full while requests wait, in {} of {} samples; {:.0f} % here",
                      100 * kFullCache, m_.pressed.count, m_.usage.count, 100 * m_.pressed.maximum),
          m_.pressed.maximum, kFullCache));
    if (!finding.evidence.empty()) causes.push_back(std::move(finding));
  }

  void lanes(std::vector<Finding>& causes) const {
    if (m_.usage.count < kEnoughSamples || m_.running.count < kEnoughSamples) return;
    if (m_.usage.mean() >= kRoomyCache || m_.waiting.mean() >= 0.5 || m_.running.maximum < 1) return;
    const double all = options_.lanes.value_or(m_.running.maximum);
    const double busy = m_.running.mean() / all;
    if (busy < kAllBusy) return;
    Finding finding;
    finding.bottleneck = Bottleneck::kLanes;
    finding.evidence.push_back(
        at(m_.running.at_maximum,
           options_.lanes
               ? fmt::format("{:.0f} of {:.0f} lanes are busy on average", m_.running.mean(), all)
               : fmt::format("{:.0f} requests run on average and never more than {:.0f}", m_.running.mean(), all),
           busy, kAllBusy));
    finding.evidence.push_back(
        at(m_.usage.at_maximum,
           fmt::format("the KV cache is {:.0f} % full on average (threshold {:.0f} %), {:.0f} % here",
                       100 * m_.usage.mean(), 100 * kRoomyCache, 100 * m_.usage.maximum),
           m_.usage.mean(), kRoomyCache));
    causes.push_back(std::move(finding));
  }

  void environment(std::vector<Finding>& causes) const {
    if (m_.environment.count == 0 || m_.environment.mean() <= kMuchWaiting) return;
    Finding finding;
    finding.bottleneck = Bottleneck::kEnvironment;
    finding.evidence.push_back(
        at(m_.environment.at_maximum,
           fmt::format(
               "rewards and tools take {:.0f} % of the time on average over {} (threshold {:.0f} %); the most here",
               100 * m_.environment.mean(), steps(m_.environment), 100 * kMuchWaiting),
           m_.environment.mean(), kMuchWaiting));
    causes.push_back(std::move(finding));
  }

  void what_was_seen() {
    const auto percent = [this](const Tally& tally, std::string_view name) {
      if (tally.count > 0)
        result_.seen.push_back(
            at(tally.at_maximum,
               fmt::format("{}: {:.1f} % on average, {:.1f} % at most", name, 100 * tally.mean(), 100 * tally.maximum),
               tally.mean()));
    };
    const auto number = [this](const Tally& tally, std::string_view name) {
      if (tally.count > 0)
        result_.seen.push_back(
            at(tally.at_maximum,
               fmt::format("{}: {:.1f} on average, {:.1f} at most", name, tally.mean(), tally.maximum), tally.mean()));
    };
    percent(m_.trainer_wait, "trainer waits");
    percent(m_.rollout_paused, "generation paused");
    percent(m_.generation_phase, "generation of a synchronous step");
    percent(m_.training_phase, "training of a synchronous step");
    percent(m_.weight_sync, "weight synchronisation");
    percent(m_.environment, "rewards and tools");
    percent(m_.usage, "KV cache in use");
    number(m_.running, "requests running");
    number(m_.waiting, "requests waiting");
    number(m_.off_policy, "weight updates that a sample lived through");
    if (const double stale = m_.stale.total(); stale > 0)
      result_.seen.push_back(at(*m_.stale.place(), fmt::format("samples dropped for their age: {:.0f}", stale), stale));
    if (m_.stale_events.count > 0)
      result_.seen.push_back(at(m_.stale_events.first,
                                fmt::format("groups dropped for their age: {}", m_.stale_events.count),
                                m_.stale_events.sum));
    if (m_.pause_events.count > 0)
      result_.seen.push_back(at(m_.pause_events.first,
                                fmt::format("generation paused {} times for the trainer", m_.pause_events.count),
                                m_.pause_events.sum));
    for (const auto& [name, value] : m_.stated)
      result_.seen.push_back(at(value.second, fmt::format("{}: {}", name, value.first), value.first));
  }

  void verdict() {
    const bool phases_known = m_.generation_phase.count > 0 && m_.training_phase.count > 0;
    const bool both_sides = (m_.trainer_wait.count > 0 && m_.rollout_paused.count > 0) || phases_known;
    if (!result_.findings.empty())
      result_.verdict = Verdict::kBottleneck;
    else if (both_sides)
      result_.verdict = Verdict::kBalanced;
    if (m_.trainer_wait.count == 0 && !phases_known)
      result_.missing.emplace_back(
          "how long the trainer waits for samples (trainer/idle_ratio of verl, timing/train/exposed_generation of "
          "NeMo-RL, time/wait_for_batch of prime-rl, timing/* of OpenRLHF, trainer events of Telescope)");
    if (m_.rollout_paused.count == 0 && !phases_known)
      result_.missing.emplace_back(
          "how long generation stands still for the trainer (rollouter/idle_ratio of verl, idle/generation_limit_pause "
          "of NeMo-RL, time/wait_for_policy of prime-rl, rollout_paused_max_async of Telescope)");
    if (m_.usage.count == 0)
      result_.missing.emplace_back("how full the KV cache is (a log of vLLM or SGLang, or their /metrics)");
  }

  void warnings() {
    if (m_.broken_lines > 0)
      result_.warnings.push_back(
          fmt::format("{} line{} start with {{ and could not be read as JSON, the first is {}:{}", m_.broken_lines,
                      m_.broken_lines == 1 ? "" : "s", m_.files[m_.first_broken.file], m_.first_broken.line));
    if (m_.not_finite > 0)
      result_.warnings.push_back(fmt::format("{} value{} NaN or infinite and left out, the first is in {}:{}",
                                             m_.not_finite, m_.not_finite == 1 ? " is" : "s are",
                                             m_.files[m_.first_not_finite.file], m_.first_not_finite.line));
    if (m_.long_lines > 0)
      result_.warnings.push_back(fmt::format("{} lines are longer than 1 MiB and were left out", m_.long_lines));
    result_.lines = m_.lines;
    result_.understood = m_.understood;
  }

  const Measures& m_;
  const ObserveOptions& options_;
  Observation result_;
};

}  // namespace

Observation judge(const Measures& measures, const ObserveOptions& options) { return Judge(measures, options).run(); }

std::string_view text_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kStartUp:
      return "a server did not start";
    case Bottleneck::kRollout:
      return "rollout-bound";
    case Bottleneck::kTrainer:
      return "trainer-bound";
    case Bottleneck::kKvCache:
      return "KV-bound";
    case Bottleneck::kLanes:
      return "lane-bound";
    case Bottleneck::kEnvironment:
      return "environment-bound";
    case Bottleneck::kWeightSync:
      return "sync-bound";
  }
  return {};
}

std::string_view id_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kStartUp:
      return "start-up";
    case Bottleneck::kRollout:
      return "rollout";
    case Bottleneck::kTrainer:
      return "trainer";
    case Bottleneck::kKvCache:
      return "kv-cache";
    case Bottleneck::kLanes:
      return "lanes";
    case Bottleneck::kEnvironment:
      return "environment";
    case Bottleneck::kWeightSync:
      return "weight-sync";
  }
  return {};
}

}  // namespace plimsoll::rl
