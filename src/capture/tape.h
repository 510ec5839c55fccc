// SPDX-License-Identifier: Apache-2.0
// A captured step as a tape: what the GPU's allocator would see of it.
#pragma once

#include <string>
#include <vector>

#include "capture/capture.h"
#include "capture/kernel_memory.h"
#include "step/tape.h"

namespace plimsoll::capture {

// Who made a tensor on the tape, by its number there; event 0 of the capture is a phase and makes none.
struct Maker {
  std::uint32_t operation = 0;  // index into Capture::events
};

struct Recorded {
  step::Tape tape{true};
  std::vector<Maker> makers;  // index: the tensor's number on the tape
};

[[nodiscard]] Recorded record(const Capture& capture, const Device& device);

}  // namespace plimsoll::capture
