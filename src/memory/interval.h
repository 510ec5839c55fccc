// SPDX-License-Identifier: Apache-2.0
// How far a prediction may be off, learned from the error tables that `plimsoll score` prints
// (docs/accuracy.md): the 90th percentile of the group that the job belongs to, and more for what no
// recording covers.
#pragma once

#include "job/job.h"

namespace plimsoll::memory {

// Half-width as a share of the predicted bytes: 0.006 means plus or minus 0.6 %.
[[nodiscard]] double relative_interval(const job::Job& job);

}  // namespace plimsoll::memory
