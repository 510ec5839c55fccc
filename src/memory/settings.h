// SPDX-License-Identifier: Apache-2.0
// How the allocator of a job is set.
#pragma once

#include "allocator/settings.h"
#include "base/result.h"
#include "job/job.h"

namespace plimsoll::memory {

// What its environment says, under the new name of the variable before the old one; PyTorch's defaults without either.
[[nodiscard]] Result<allocator::Settings> settings_of(const job::Job& job);

}  // namespace plimsoll::memory
