// SPDX-License-Identifier: Apache-2.0
#include "why/infer.h"

#include <algorithm>
#include <cmath>

#include "why/rules.h"

namespace plimsoll::why {

namespace {

// Weights are guesses: on labelled logs the sums promise more than they keep, so they are flattened by this factor
// before they become probabilities (docs/accuracy.md, reliability).
constexpr double kFlattening = 1.0;
// What no rule thinks of, in the same units.
constexpr double kUnthought = 1.3;
constexpr double kMostSure = 0.97;

void ask(std::span<const Rule> rules, const Situation& at, Ballot& ballot, std::array<double, kCauses>& strongest) {
  for (const Rule& rule : rules) {
    if (!rule.holds(at)) continue;
    const auto i = static_cast<std::size_t>(rule.cause);
    ballot.score[i] += rule.weight;
    if (rule.weight <= 0) continue;
    ballot.named[i] = true;
    const double rank = rule.is_prior ? 0 : rule.weight;
    if (rank >= strongest[i]) {
      strongest[i] = rank;
      ballot.because[i] = rule.because;
    }
  }
}

}  // namespace

Ballot weigh(const Situation& at) {
  Ballot ballot;
  std::array<double, kCauses> strongest{};
  switch (at.resource) {
    case Resource::kDevice:
    case Resource::kCap:
      if (at.is(SignalKind::kDeviceOom) || at.is(SignalKind::kUnclearMemory)) {
        ask(device_rules(), at, ballot, strongest);
        ask(phase_rules(), at, ballot, strongest);
      } else {
        ask(special_rules(), at, ballot, strongest);
      }
      break;
    case Resource::kHost:
    case Resource::kPinned:
    case Resource::kShared:
    case Resource::kDisk:
    case Resource::kDescriptors:
    case Resource::kBudget:
    case Resource::kDriverLimit:
      ask(host_rules(), at, ballot, strongest);
      break;
    case Resource::kNone:
    case Resource::kUnknown:
      ask(other_rules(), at, ballot, strongest);
      break;
  }
  return ballot;
}

std::vector<Candidate> infer(const Situation& at) {
  const Ballot ballot = weigh(at);
  std::vector<Candidate> candidates;
  double most = kUnthought;
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (!ballot.named[i] || ballot.score[i] <= 0) continue;
    candidates.push_back({static_cast<Cause>(i), ballot.score[i], 0, std::string{ballot.because[i]}, {}});
    most = std::max(most, ballot.score[i]);
  }
  double sum = std::exp((kUnthought - most) / kFlattening);
  for (const Candidate& one : candidates) sum += std::exp((one.weight - most) / kFlattening);
  for (Candidate& one : candidates)
    one.probability = std::min(kMostSure, std::exp((one.weight - most) / kFlattening) / sum);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
  // "unknown" is an answer, not a runner-up worth reading.
  std::erase_if(candidates, [&](const Candidate& one) {
    return one.cause == Cause::kUnknown && one.probability < 0.15 && candidates.size() > 1;
  });
  if (candidates.empty())
    candidates.push_back({Cause::kUnknown, 0, 1 / (1 + std::exp(kUnthought)), "no rule knows these words", {}});
  return candidates;
}

}  // namespace plimsoll::why
