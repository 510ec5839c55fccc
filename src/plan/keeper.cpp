// SPDX-License-Identifier: Apache-2.0
#include "plan/keeper.h"

#include <algorithm>

namespace plimsoll::plan {

bool is_faster(const Priced& a, const Priced& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  if (a.peak != b.peak) return a.peak < b.peak;
  return a.candidate.key() < b.candidate.key();
}

bool is_leaner(const Priced& a, const Priced& b) {
  if (a.peak != b.peak) return a.peak < b.peak;
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  return a.candidate.key() < b.candidate.key();
}

bool Keeper::is_hopeless(double seconds, std::int64_t floor) const {
  if (front_.empty()) return false;
  const bool is_last = order_ == Order::kTime ? is_full() && (most_ == 0 || seconds > best_.front().seconds)
                                              : is_full() && (most_ == 0 || floor > best_.front().peak);
  if (!is_last) return false;
  if (seconds > kFrontSlowdown * front_.front().seconds) return true;
  // The leanest point that is faster.
  const auto after =
      std::partition_point(front_.begin(), front_.end(), [seconds](const Priced& p) { return p.seconds < seconds; });
  return after != front_.begin() && std::prev(after)->peak <= floor;
}

void Keeper::add(const Priced& priced) {
  const auto heap = [this](const Priced& a, const Priced& b) { return ranks_before(a, b); };
  if (best_.size() < most_) {
    best_.push_back(priced);
    std::push_heap(best_.begin(), best_.end(), heap);
  } else if (most_ > 0 && ranks_before(priced, best_.front())) {
    std::pop_heap(best_.begin(), best_.end(), heap);
    best_.back() = priced;
    std::push_heap(best_.begin(), best_.end(), heap);
  }
  const auto at =
      std::partition_point(front_.begin(), front_.end(), [&priced](const Priced& p) { return is_faster(p, priced); });
  if (at != front_.begin() && std::prev(at)->peak <= priced.peak) return;
  const auto beaten = std::find_if(at, front_.end(), [&priced](const Priced& p) { return p.peak < priced.peak; });
  const auto place = front_.erase(at, beaten);
  front_.insert(place, priced);
}

void Keeper::merge(const Keeper& other) {
  // Points on the other's front may be among its best too: each once.
  std::vector<Priced> all = other.best_;
  for (const Priced& p : other.front_)
    if (std::none_of(other.best_.begin(), other.best_.end(),
                     [&p](const Priced& b) { return b.candidate.key() == p.candidate.key(); }))
      all.push_back(p);
  for (const Priced& p : all) add(p);
}

std::vector<Priced> Keeper::best() const {
  std::vector<Priced> ranked = best_;
  std::sort(ranked.begin(), ranked.end(), [this](const Priced& a, const Priced& b) { return ranks_before(a, b); });
  return ranked;
}

std::vector<Priced> Keeper::front() const {
  std::vector<Priced> front = front_;
  if (!front.empty())
    std::erase_if(front,
                  [limit = kFrontSlowdown * front.front().seconds](const Priced& p) { return p.seconds > limit; });
  return front;
}

}  // namespace plimsoll::plan
