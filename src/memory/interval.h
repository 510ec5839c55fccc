// SPDX-License-Identifier: Apache-2.0
// How far a prediction may be off: nine in ten measured peaks lie within. Learned from the residuals that
// `plimsoll score` prints (docs/accuracy.md), mechanism by mechanism: allocated memory is off by a share that depends
// on whose modules run, reserved memory by a share of what the allocator holds beyond it, because that is what
// fragmentation decides. What no recording covers widens both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "job/job.h"

namespace plimsoll::memory {

// Half-widths in bytes.
struct Spread {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
};

// step_warnings: knobs that the step named as not followed, besides the job's own.
[[nodiscard]] Spread spread_of(const job::Job& job, std::size_t step_warnings, std::int64_t allocated,
                               std::int64_t reserved);

}  // namespace plimsoll::memory
