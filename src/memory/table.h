// SPDX-License-Identifier: Apache-2.0
// The table of a rank: rows that sum exactly to the capacity.
#pragma once

#include <vector>

#include "memory/answer.h"
#include "memory/outside.h"

namespace plimsoll::memory {

// Rows by category at the peak, then what the allocator holds beyond them, then what stands beside torch.
// step_outside: paged states, which the step keeps on the device but not in torch.
[[nodiscard]] std::vector<Row> make_table(const RankAnswer& rank, const std::vector<OutsideItem>& outside,
                                          std::int64_t step_outside);

}  // namespace plimsoll::memory
