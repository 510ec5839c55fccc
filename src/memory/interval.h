// SPDX-License-Identifier: Apache-2.0
// How far a prediction may be off, learned from the error tables that `plimsoll score` prints
// (docs/accuracy.md): the 90th percentile of the group that the job belongs to, and more for what no
// recording covers.
#pragma once

#include <cstddef>

#include "job/job.h"

namespace plimsoll::memory {

// Half-width as a share of the predicted bytes: 0.006 means plus or minus 0.6 %.
// step_warnings: knobs that the step named as not followed, besides the job's own.
[[nodiscard]] double relative_interval(const job::Job& job, std::size_t step_warnings = 0);

}  // namespace plimsoll::memory
