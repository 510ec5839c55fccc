// SPDX-License-Identifier: Apache-2.0
// A step of several micro-batches from a capture of one. From the second on, gradients are there already: what backward
// makes of a weight is added to them in place and goes as soon as its node has returned. Later micro-batches are like
// the second, so two are enough.
#pragma once

#include "capture/capture.h"

namespace plimsoll::capture {

// Whether the step was captured with more than one micro-batch.
[[nodiscard]] bool has_accumulation(const Capture& capture);
[[nodiscard]] Capture with_accumulation(const Capture& capture);

}  // namespace plimsoll::capture
