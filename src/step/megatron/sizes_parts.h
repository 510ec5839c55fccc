// SPDX-License-Identifier: Apache-2.0
// What the sizes of all parts of a layer start from.
#pragma once

#include "step/megatron/sizes.h"

namespace plimsoll::step::megatron {

struct Shape {
  std::int64_t tokens;         // T
  std::int64_t tokens_stored;  // T / t_s
  std::int64_t tp;
  std::int64_t act_bytes;    // bytes of an activation element
  std::int64_t param_bytes;  // bytes of a weight gradient element
};

[[nodiscard]] Shape shape_of(const job::Job& job);

// Bytes of `elements` values as a quantised GEMM input is saved: 1 byte (FP8), with block scales for
// MXFP8 and blockwise, 0.5625 (NVFP4), or 16 bits.
[[nodiscard]] std::int64_t saved_gemm_input(const job::Job& job, std::int64_t elements, bool in_bf16);

void fill_mixer(const job::Job& job, const model::StateSpace& mixer, const Shape& shape, bool in_bf16, LayerSizes& z);

}  // namespace plimsoll::step::megatron
