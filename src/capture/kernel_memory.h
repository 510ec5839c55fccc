// SPDX-License-Identifier: Apache-2.0
// What an operation's kernel takes for itself while it runs. Fake tensors cannot show it: it is neither an input nor
// an output. Each rule was read in memory histories of real steps (facts other-frameworks-memory.md 2.3, 2.8;
// docs/accuracy.md, captures).
#pragma once

#include <cstdint>
#include <vector>

#include "capture/capture.h"

namespace plimsoll::capture {

struct Device {
  std::int64_t multiprocessors = 132;
  std::int64_t workspace = 0;  // of one cuBLAS handle
};

// Bytes that are alive together while the operation runs, after its outputs were made.
[[nodiscard]] std::vector<std::int64_t> scratch_of(const Capture& capture, const Event& operation,
                                                   const Device& device);

// Products take a workspace of their library for good, one for the thread of the forward and one for the backward's;
// those with a bias a third.
enum class Product : std::uint8_t { kNone, kPlain, kWithBias };
[[nodiscard]] Product product_of(std::string_view operation);

}  // namespace plimsoll::capture
