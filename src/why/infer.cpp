// SPDX-License-Identifier: Apache-2.0
#include "why/infer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "why/neighbours.h"
#include "why/rules.h"

namespace plimsoll::why {

namespace {

// What no rule thinks of, in the same units.
constexpr double kUnthought = 1.3;
constexpr double kMostSure = 0.97;

// Share of right first answers by the probability that the weights give, measured over 1,222 logs that nobody had seen
// (docs/accuracy.md, reliability). Up to two thirds the weights tell little apart. Between 0.7 and 0.9 four to six of
// seven are right, which is stated just below the threshold of a sure answer: of those at or above it no more than
// three in a hundred may be wrong, and from 0.905 on they are so few.
struct Knot {
  double weighed;
  double measured;
};
constexpr Knot kKnots[] = {{0, 0.57},    {0.35, 0.58},  {0.6, 0.6},    {0.7, 0.68},
                           {0.73, 0.78}, {0.905, 0.79}, {0.905, 0.94}, {1, 0.97}};

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

double stated(double weighed) {
  for (std::size_t i = 1; i < std::size(kKnots); ++i) {
    const Knot& low = kKnots[i - 1];
    const Knot& high = kKnots[i];
    if (weighed >= high.weighed && i + 1 < std::size(kKnots)) continue;
    const double part = high.weighed > low.weighed ? (weighed - low.weighed) / (high.weighed - low.weighed) : 1;
    return std::min(kMostSure, low.measured + std::min(1.0, part) * (high.measured - low.measured));
  }
  return kMostSure;
}

double stated(double weighed, Cause first) {
  // Of 22 answers at first sight that named one of these surely, 6 were wrong; of 256 others 8 (docs/accuracy.md).
  const bool doubtful =
      first == Cause::kGenuineCapacity || first == Cause::kActivationBound || first == Cause::kCublasCudnnAlloc;
  constexpr double kBelowSure = 0.79;
  return doubtful ? std::min(kBelowSure, stated(weighed)) : stated(weighed);
}

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
  double sum = std::exp((kUnthought - most));
  for (const Candidate& one : candidates) sum += std::exp((one.weight - most));
  for (Candidate& one : candidates) one.probability = std::min(kMostSure, std::exp((one.weight - most)) / sum);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; });
  // "unknown" is an answer, not a runner-up worth reading.
  std::erase_if(candidates, [&](const Candidate& one) {
    return one.cause == Cause::kUnknown && one.probability < 0.15 && candidates.size() > 1;
  });
  if (candidates.empty())
    candidates.push_back({Cause::kUnknown, 0, 1 / (1 + std::exp(kUnthought)), "no rule knows these words", {}});
  // The first is stated as it was measured; the others share what is left as their weights have it.
  const double first = candidates.front().probability;
  const double said = stated(first, candidates.front().cause);
  for (Candidate& one : candidates) one.probability *= first < 1 ? (1 - said) / (1 - first) : 1;
  candidates.front().probability = said;
  // Half of what is left, at most: nobody measured more than that it comes next.
  if (candidates.size() == 1)
    if (const auto next = neighbour_of(candidates.front().cause, at))
      candidates.push_back({next->cause, 0, (1 - said) / 2, std::string{next->because}, {}});
  return candidates;
}

}  // namespace plimsoll::why
