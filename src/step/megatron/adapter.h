// SPDX-License-Identifier: Apache-2.0
// LoRA and DoRA in Megatron-Bridge (facts megatron-memory.md 3.6): the base is frozen, adapters train.
#pragma once

#include <cstdint>

#include "job/job.h"

namespace plimsoll::step::megatron {

// Which linears of a layer carry an adapter. Bridge's names (linear_qkv) and PEFT's (q_proj) both count.
struct AdaptedLinears {
  bool any = false;  // the base is frozen
  bool qkv = false;
  bool proj = false;
  bool fc1 = false;
  bool fc2 = false;
};

[[nodiscard]] AdaptedLinears adapted_linears(const job::Job& job);

// Trainable elements of the adapter on a linear of in -> out features, as one tensor-parallel rank holds
// it: the factor on the split side is split with it.
[[nodiscard]] std::int64_t adapter_elements(const job::Job& job, std::int64_t in, std::int64_t out,
                                            bool column_parallel);

}  // namespace plimsoll::step::megatron
