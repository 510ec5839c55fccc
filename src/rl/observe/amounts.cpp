// SPDX-License-Identifier: Apache-2.0
// What each piece of advice is worth to the run that was observed: the knob turned in the run's own simulation.
#include <algorithm>

#include <fmt/format.h>

#include "rl/frameworks/names.h"
#include "rl/knobs.h"
#include "rl/observe/amounts.h"

namespace plimsoll::rl {

namespace {

// A knob that the advice means: the same key, or for recomputation and FP8 the levers of that kind.
bool is_meant(const Knob& knob, const std::string& key) {
  return std::any_of(knob.settings.begin(), knob.settings.end(), [&key](const auto& setting) {
    const std::string& name = setting.first;
    if (key == "recompute") return name == "megatron_gradient_checkpointing" || name == "gradient_checkpointing";
    if (key == "fp8") return name == "fp8" || name == "megatron_fp8";
    return name == key;
  });
}

// The value that the advice asks for by name; empty: a direction, or any other value.
std::string_view wanted_value(const Advice& advice) {
  if (advice.key == "logprob_pass" || advice.key == "recompute") return "false";
  for (const std::string_view value : {"true", "fp8", "PACK"})
    if (advice.change == value) return value;
  return {};
}

// "raise" and "lower" mean larger and smaller values than the present one.
bool goes_that_way(const Priced& priced, const Advice& advice) {
  const std::string& change = advice.change;
  if (const std::string_view wanted = wanted_value(advice); !wanted.empty())
    return std::any_of(priced.knob.settings.begin(), priced.knob.settings.end(),
                       [wanted](const auto& setting) { return setting.second == wanted; });
  if (!change.starts_with("raise") && !change.starts_with("lower")) return true;
  for (std::size_t i = 0; i < priced.knob.settings.size() && i < priced.was.size(); ++i) {
    if (priced.knob.settings[i].first != advice.key) continue;
    const document::Node before = document::parse_scalar(priced.was[i]);
    const document::Node after = document::parse_scalar(priced.knob.settings[i].second);
    if (!before.is_number() || !after.is_number()) return true;
    return change.starts_with("raise") ? after.as_real() > before.as_real() : after.as_real() < before.as_real();
  }
  return false;
}

std::string worth(const Priced& priced) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < priced.knob.settings.size(); ++i) {
    const auto& [key, value] = priced.knob.settings[i];
    const std::string was = i < priced.was.size() ? priced.was[i] : std::string{};
    words.push_back(was.empty() ? fmt::format("{} {}", key, value) : fmt::format("{} {} -> {}", key, was, value));
  }
  return fmt::format("{}: {:+.1f} % tokens/s{}", fmt::join(words, ", "), 100 * priced.tokens_per_second,
                     priced.fits ? "" : ", but it would not run so");
}

}  // namespace

void add_amounts(const std::vector<Priced>& priced, Observation& observation) {
  for (Finding& finding : observation.findings)
    for (Advice& advice : finding.advice) {
      const Priced* best = nullptr;
      for (const Priced& one : priced) {
        if (!one.refused.empty() || !is_meant(one.knob, advice.key) || !goes_that_way(one, advice)) continue;
        if (best == nullptr || one.tokens_per_second > best->tokens_per_second) best = &one;
      }
      if (best != nullptr) advice.amount = worth(*best);
    }
}

Status add_amounts(const Run& draft, const EvaluationOptions& options, Observation& observation) {
  Run run = draft;
  PLIMSOLL_TRY_STATUS(complete(run));
  PLIMSOLL_TRY(answer, evaluate(run, options));
  add_amounts(price_knobs(draft, run, answer, knobs_of(run, answer), options), observation);
  return {};
}

}  // namespace plimsoll::rl
