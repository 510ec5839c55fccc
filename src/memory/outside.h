// SPDX-License-Identifier: Apache-2.0
// Device memory that torch does not count: CUDA context, NCCL, userbuffers, expert-parallel libraries.
// None of it can be read from a configuration; the sizes are rules of thumb with a range and are
// marked as estimates wherever they are shown (facts megatron-memory.md 10).
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace plimsoll::memory {

struct OutsideItem {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

[[nodiscard]] std::vector<OutsideItem> outside_torch(const job::Job& job);

// The sum of their bytes.
[[nodiscard]] std::int64_t outside_torch_bytes(const job::Job& job);

}  // namespace plimsoll::memory
