// SPDX-License-Identifier: Apache-2.0
// Scratch of PyTorch's CUDA reductions over leading dimensions (gradients of norm weights and biases):
// when few outputs have many inputs, the input is split over thread blocks that meet in global memory.
#pragma once

#include <cstdint>

namespace plimsoll::step::transformers {

struct ReduceScratch {
  std::int64_t partials = 0;    // bytes; 0: one block per output suffices
  std::int64_t semaphores = 0;  // bytes
};

// `outputs` sums of `inputs` values each, accumulated in fp32, on a GPU with `multiprocessors`.
[[nodiscard]] ReduceScratch outer_reduce_scratch(std::int64_t outputs, std::int64_t inputs,
                                                 std::int64_t multiprocessors);

}  // namespace plimsoll::step::transformers
