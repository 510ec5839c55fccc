// SPDX-License-Identifier: Apache-2.0
// What kernels take for themselves while they run, for families and captures alike. Reductions over leading dimensions
// (gradients of norm weights and biases): when few outputs have many inputs, the input is split over thread blocks that
// meet in global memory. Convolutions: a workspace of cuDNN.
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

// cuDNN convolves 16-bit values with the channels last, eight at a time: input, weight and output (elements) are laid
// out anew in its workspace (Whisper's and ViT's histories, to the byte). 0 channels: it takes none.
[[nodiscard]] std::int64_t convolution_workspace(std::int64_t inputs, std::int64_t weights, std::int64_t outputs,
                                                 std::int64_t channels, std::int64_t width);

// Channels of a convolution that cuts an image into patches. cuDNN lays small images out anew: it did so for images of
// up to 676 patches in every recording, and for none of 1,024 and more.
[[nodiscard]] std::int64_t patch_channels(std::int64_t patches_of_an_image);

}  // namespace plimsoll::step::transformers
