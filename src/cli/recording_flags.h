// SPDX-License-Identifier: Apache-2.0
// What a verb's flags say of a recording.
#pragma once

#include <vector>

#include "answer/recording.h"
#include "cli/arguments.h"

namespace plimsoll::cli {

// --device, --torch, --gpu, --capacity, --fraction.
[[nodiscard]] const std::vector<Flag>& recording_flags();

[[nodiscard]] Result<answer::RecordingConditions> recording_conditions(const Arguments& arguments);

}  // namespace plimsoll::cli
