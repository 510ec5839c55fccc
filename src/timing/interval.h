// SPDX-License-Identifier: Apache-2.0
// How far a predicted step time may be off, from the error tables of `plimsoll score` (docs/accuracy.md).
#pragma once

#include "job/job.h"

namespace plimsoll::timing {

// Half-width as a share of the predicted seconds.
[[nodiscard]] double relative_interval(const job::Job& job);

}  // namespace plimsoll::timing
