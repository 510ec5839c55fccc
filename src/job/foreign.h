// SPDX-License-Identifier: Apache-2.0
// Keys that the chosen framework does not have. A value other than what the framework does anyway would be passed over
// in silence there, or counted here for a run that cannot be: it is refused.
#pragma once

#include <string_view>
#include <vector>

#include "job/job.h"

namespace plimsoll::job {

// Frameworks that have the key; empty: all of them.
[[nodiscard]] std::vector<Framework> frameworks_with(std::string_view key);

// Of the keys that were given. The job need not be complete.
[[nodiscard]] Status refuse_foreign_keys(const Job& job);

}  // namespace plimsoll::job
