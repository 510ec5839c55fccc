// SPDX-License-Identifier: Apache-2.0
// A step at a batch and a sequence length that were not captured, from captures that differ in one of them: every
// dimension of a tensor is linear in the batch and in the length (a flattened one in their product), so three captures
// tell all of them. Strides are left as they were scaled: those of squares are not linear, and nothing needs them.
#pragma once

#include <span>

#include "capture/capture.h"

namespace plimsoll::capture {

// `known` holds one capture, or three of the same program: one, one with another batch, one with another length.
[[nodiscard]] Result<Capture> at_size(std::span<const Capture> known, std::int64_t batch, std::int64_t sequence);

}  // namespace plimsoll::capture
