// SPDX-License-Identifier: Apache-2.0
// A captured step as a tape: what the GPU's allocator would see of it.
#pragma once

#include <string>
#include <string_view>
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

// What made a tensor of the tape: "addmm", "model.layers.3.mlp". Empty for what was there before any operation.
struct Origin {
  std::string operation;
  std::string place;
};
[[nodiscard]] Origin origin_of(const Capture& capture, const std::vector<Maker>& makers, std::uint32_t tensor);
// "model.layers.11.mlp" as "model.layers.*.mlp", "fc1 of layer 3" as "fc1 of layer *": alike places read alike.
[[nodiscard]] std::string without_numbers(std::string_view path);

[[nodiscard]] Recorded record(const Capture& capture, const Device& device);

}  // namespace plimsoll::capture
