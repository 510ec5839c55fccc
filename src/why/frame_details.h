// SPDX-License-Identifier: Apache-2.0
// What single frames say beside the phase: whose they are, what they move, make or convert, and what the innermost of
// them was computing.
#pragma once

#include <vector>

#include "why/phase.h"

namespace plimsoll::why {

// A checkpoint is read into the model.
[[nodiscard]] bool is_shard_load(const Frame& frame);
// Options are checked.
[[nodiscard]] bool is_config(const Frame& frame);
// Weights are changed after they were read.
[[nodiscard]] bool converts(const Frame& frame);

void read_details(const std::vector<Frame>& frames, FramesPhase& found);

}  // namespace plimsoll::why
