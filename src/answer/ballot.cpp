// SPDX-License-Identifier: Apache-2.0
#include "answer/ballot.h"

#include <algorithm>
#include <utility>

namespace plimsoll::answer {

namespace {

why::Candidate* find(why::Diagnosis& diagnosis, why::Cause cause) {
  const auto found = std::find_if(diagnosis.candidates.begin(), diagnosis.candidates.end(),
                                  [cause](const why::Candidate& one) { return one.cause == cause; });
  return found == diagnosis.candidates.end() ? nullptr : &*found;
}

// The others keep their proportions and sum to what `one` leaves.
void share_rest(why::Diagnosis& diagnosis, const why::Candidate& one, double before) {
  const double factor = before < 1 ? (1 - one.probability) / (1 - before) : 0;
  for (why::Candidate& other : diagnosis.candidates)
    if (&other != &one) other.probability *= factor;
}

void sort_again(why::Diagnosis& diagnosis) {
  std::stable_sort(diagnosis.candidates.begin(), diagnosis.candidates.end(),
                   [](const why::Candidate& a, const why::Candidate& b) { return a.probability > b.probability; });
  why::Candidate& first = diagnosis.candidates.front();
  if (first.cause != diagnosis.cause)
    if (why::Candidate* former = find(diagnosis, diagnosis.cause); former != nullptr && former->against.empty())
      former->against = "weaker evidence";
  first.against.clear();
  diagnosis.cause = first.cause;
  diagnosis.confidence = first.probability;
  diagnosis.what = std::string{why::cause_says(first.cause)};
}

}  // namespace

void put_first(why::Diagnosis& diagnosis, why::Cause cause, double probability, std::string because) {
  if (find(diagnosis, cause) == nullptr) diagnosis.candidates.push_back({cause, 0, 0, {}, {}});
  why::Candidate& one = *find(diagnosis, cause);
  const double before = one.probability;
  one.probability = std::max(before, probability);
  one.because = std::move(because);
  share_rest(diagnosis, one, before);
  sort_again(diagnosis);
}

void rule_out(why::Diagnosis& diagnosis, why::Cause cause, std::string against) {
  constexpr double kLeft = 0.01;
  why::Candidate* one = find(diagnosis, cause);
  if (one == nullptr || diagnosis.candidates.size() < 2) return;
  const double before = one->probability;
  one->probability = std::min(before, kLeft);
  share_rest(diagnosis, *one, before);
  sort_again(diagnosis);
  // Sorting moves them.
  if (why::Candidate* moved = find(diagnosis, cause); moved != &diagnosis.candidates.front())
    moved->against = std::move(against);
}

}  // namespace plimsoll::answer
