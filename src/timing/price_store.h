// SPDX-License-Identifier: Apache-2.0
// Prices of layers that a search has worked out already, found again by what they were made of: the operations of the
// layer, what decides their prices, which parts are replayed. Points that differ in pipeline, layout or optimizer have
// the same layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "timing/passes.h"

namespace plimsoll::timing {

class PriceStore {
 public:
  // price() of the list, from the store where it is there.
  [[nodiscard]] PassCost price(const job::Job& job, const Prices& prices, const step::WorkList& list);

 private:
  struct Known {
    std::uint32_t replayed;  // a bit for each step::Part
    Prices prices;
    std::vector<step::Work> list;
    PassCost cost;
  };
  std::unordered_map<std::size_t, std::vector<Known>> known_;
  std::size_t kept_ = 0;
};

}  // namespace plimsoll::timing
