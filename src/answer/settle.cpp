// SPDX-License-Identifier: Apache-2.0
#include "answer/settle.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::answer {

namespace {

// Of the device: below it what lasts leaves room for a step, above it there is hardly any.
constexpr double kRoomForAStep = 0.6;
constexpr double kNoRoom = 0.85;
// How sure the sum of a job makes one of two causes that the log leaves open.
constexpr double kShareOfBoth = 0.9;
// Where the job fits: what ran has made more than the job says, and why is open.
constexpr double kShareWhereItFits = 0.75;

// Weights, gradients and states at the peak.
std::int64_t lasting(const memory::RankAnswer& rank) {
  std::int64_t bytes = 0;
  for (const memory::Row& row : rank.table)
    if (row.name == "parameters" || row.name == "gradients" || row.name == "optimizer state") bytes += row.bytes;
  return bytes;
}

why::Candidate* find(why::Diagnosis& diagnosis, why::Cause cause) {
  const auto found = std::find_if(diagnosis.candidates.begin(), diagnosis.candidates.end(),
                                  [cause](const why::Candidate& one) { return one.cause == cause; });
  return found == diagnosis.candidates.end() ? nullptr : &*found;
}

}  // namespace

void settle_by_job(const KnownJob& known, why::Diagnosis& diagnosis) {
  using why::Cause;
  if (known.answer.ranks.empty()) return;
  if (diagnosis.cause != Cause::kGenuineCapacity && diagnosis.cause != Cause::kActivationBound) return;
  const memory::RankAnswer& worst = known.answer.ranks[known.answer.worst];
  const std::int64_t bytes = lasting(worst);
  const double share = static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, worst.capacity));
  if (bytes == 0 || (share >= kRoomForAStep && share <= kNoRoom)) return;
  // A job that fits has room for its step: what lasts was not too much, whatever the step made of it.
  if (known.answer.fits && share > kNoRoom) return;
  const Cause right = share < kRoomForAStep ? Cause::kActivationBound : Cause::kGenuineCapacity;
  const Cause wrong = share < kRoomForAStep ? Cause::kGenuineCapacity : Cause::kActivationBound;
  why::Candidate* first = find(diagnosis, right);
  why::Candidate* second = find(diagnosis, wrong);
  // A load that ran out has made no activations, whatever the job says of its steps.
  if (first == nullptr || second == nullptr || diagnosis.phase == why::Phase::kLoad) return;
  const double both = first->probability + second->probability;
  first->probability = std::max(first->probability, (known.answer.fits ? kShareWhereItFits : kShareOfBoth) * both);
  second->probability = both - first->probability;
  first->because = fmt::format("by the job, weights, gradients and states take {} of {}{}", format_bytes(bytes),
                               format_bytes(worst.capacity),
                               right == Cause::kActivationBound ? ": the rest is what a step makes" : "");
  first->against.clear();
  second->against = "the job's own sum says otherwise";
  std::stable_sort(diagnosis.candidates.begin(), diagnosis.candidates.end(),
                   [](const why::Candidate& a, const why::Candidate& b) { return a.probability > b.probability; });
  diagnosis.cause = diagnosis.candidates.front().cause;
  diagnosis.confidence = diagnosis.candidates.front().probability;
  diagnosis.what = std::string{why::cause_says(diagnosis.cause)};
}

}  // namespace plimsoll::answer
