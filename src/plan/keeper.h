// SPDX-License-Identifier: Apache-2.0
// What a search keeps of the points that fit: the fastest, and the front of memory against time. It also says what need
// not be priced further. Invariant: nothing is turned away that belongs to either.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/evaluator.h"

namespace plimsoll::plan {

// Points slower than this many times the fastest are on no front: nobody runs them.
inline constexpr double kFrontSlowdown = 2.0;

// Fastest first; equal times by memory, then by the knobs, so that no answer depends on the order of pricing.
[[nodiscard]] bool is_faster(const Priced& a, const Priced& b);
[[nodiscard]] bool is_leaner(const Priced& a, const Priced& b);

class Keeper {
 public:
  enum class Order { kTime, kMemory };
  Keeper(std::size_t most, Order order) : most_(most), order_(order) {}

  // Whether a point of this time that needs at least `floor` can neither be among the best nor on the front.
  [[nodiscard]] bool is_hopeless(double seconds, std::int64_t floor) const;
  void add(const Priced& priced);
  void merge(const Keeper& other);

  [[nodiscard]] std::vector<Priced> best() const;   // ranked
  [[nodiscard]] std::vector<Priced> front() const;  // fastest first
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] bool is_full() const { return best_.size() >= most_; }

 private:
  [[nodiscard]] bool ranks_before(const Priced& a, const Priced& b) const {
    return order_ == Order::kTime ? is_faster(a, b) : is_leaner(a, b);
  }

  std::size_t most_;
  Order order_;
  std::vector<Priced> best_;   // a heap, the last of the best at its top
  std::vector<Priced> front_;  // by time, memory falling
};

}  // namespace plimsoll::plan
