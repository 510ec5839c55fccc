// SPDX-License-Identifier: Apache-2.0
#include "rl/observe/measures.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::rl {

namespace {

constexpr std::size_t kMostSeries = 4096;
constexpr std::size_t kMostFailures = 8;

}  // namespace

void Tally::add(double value, const Place& place) {
  if (!std::isfinite(value)) return;
  if (count == 0) first = place;
  if (count == 0 || value > maximum) {
    maximum = value;
    at_maximum = place;
  }
  ++count;
  sum += value;
}

void Growth::add(const std::string& name, double value, const Place& place) {
  if (!std::isfinite(value) || value < 0) return;
  const auto found = series.find(name);
  if (found == series.end()) {
    if (series.size() < kMostSeries) series.emplace(name, Series{value, value, place, 1});
    return;
  }
  Series& one = found->second;
  // A restarted server counts from zero again.
  if (value < one.last) one.first -= one.last;
  if (value != one.last) one.place = place;
  one.last = value;
  ++one.samples;
}

double Growth::total() const {
  double total = 0;
  for (const auto& [name, one] : series) total += one.samples > 1 ? one.last - one.first : one.last;
  return total;
}

std::optional<Place> Growth::place() const {
  for (const auto& [name, one] : series)
    if ((one.samples > 1 ? one.last - one.first : one.last) > 0) return one.place;
  return std::nullopt;
}

void Measures::add_sample(const ServerSample& sample, const Place& place) {
  if (sample.usage) usage.add(*sample.usage, place);
  if (sample.running) running.add(*sample.running, place);
  if (sample.waiting) waiting.add(*sample.waiting, place);
  if (sample.usage && sample.waiting && *sample.usage > kFullCache && *sample.waiting > 0)
    pressed.add(*sample.usage, place);
}

void Measures::add_failure(StartUpFailure failure) {
  const bool known = std::any_of(failures.begin(), failures.end(),
                                 [&](const StartUpFailure& other) { return other.text == failure.text; });
  if (!known && failures.size() < kMostFailures) failures.push_back(std::move(failure));
}

}  // namespace plimsoll::rl
