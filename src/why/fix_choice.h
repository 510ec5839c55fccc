// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "why/diagnosis.h"
#include "why/known_settings.h"

namespace plimsoll::why {

// The ids of the rungs that may mend it, best first; whether each can apply is asked elsewhere (fix_conditions.h).
[[nodiscard]] std::vector<std::string_view> rungs_of(const Diagnosis& diagnosis, const KnownSettings& known);

}  // namespace plimsoll::why
