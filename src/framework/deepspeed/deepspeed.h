// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "job/draft.h"

namespace plimsoll::job {

[[nodiscard]] const std::vector<Alias>& deepspeed_aliases();

// Replaces "auto" by what Transformers makes of it; the model is in `joined`.
[[nodiscard]] Status resolve_auto(Joined& joined, const ReadOptions& options);

}  // namespace plimsoll::job
