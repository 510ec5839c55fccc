// SPDX-License-Identifier: Apache-2.0
// What frameworks around Transformers' modules have in common.
#pragma once

#include <string_view>
#include <vector>

#include "job/job.h"

namespace plimsoll::job {

// SDPA, fp32 loss, no fusion across modules.
void use_modules_of_transformers(Job& job);

[[nodiscard]] const std::vector<Alias>& transformers_aliases();

inline constexpr UsualSetting kTrainsInBf16[] = {{"bf16", "true"}};
inline constexpr std::string_view kTrainerLengthHint = "TrainingArguments do not hold it: give --seq-length 4096, say";
inline constexpr std::string_view kTrainerTwoHalves = "At most one of fp16 and bf16 can be True, but not both";

}  // namespace plimsoll::job
