// SPDX-License-Identifier: Apache-2.0
#include "memory/table.h"

namespace plimsoll::memory {

std::vector<Row> make_table(const RankAnswer& rank, const std::vector<OutsideItem>& outside,
                            std::int64_t step_outside) {
  std::vector<Row> table;
  std::array<std::int64_t, step::kCategories> sums{};
  for (const Alive& alive : rank.alive) sums[static_cast<std::size_t>(step::category_of(alive.name))] += alive.bytes;
  std::int64_t named = 0;
  for (int c = 0; c < step::kCategories; ++c) {
    table.push_back(
        {std::string(step::text_of(static_cast<step::Category>(c))), sums[static_cast<std::size_t>(c)], false});
    named += sums[static_cast<std::size_t>(c)];
  }
  if (rank.not_simulated > 0) table.push_back({"tensors, not simulated", rank.not_simulated, false});
  table.push_back({"allocator rounding", rank.peak_allocated - named - rank.not_simulated, false});
  table.push_back({"cached, unused", rank.peak_reserved - rank.peak_allocated, false});
  for (const OutsideItem& item : outside) table.push_back({item.name, item.bytes, true});
  if (step_outside > 0) table.push_back({"paged optimizer states", step_outside, true});
  table.push_back({"free", rank.headroom, false});
  return table;
}

}  // namespace plimsoll::memory
