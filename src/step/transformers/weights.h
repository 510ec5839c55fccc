// SPDX-License-Identifier: Apache-2.0
// The weights of a model as Transformers creates them: one tensor each, in construction order, so that
// gradients and optimizer states come out as separate blocks (facts other-frameworks-memory.md 0, 3.1).
#pragma once

#include <cstdint>
#include <vector>

#include "job/job.h"
#include "step/tape.h"

namespace plimsoll::step::transformers {

enum class WeightKind : std::uint8_t {
  kEmbedding,  // 32-bit states under Trainer's 8-bit optimizers
  kMatrix,     // used by a linear: 4-bit under QLoRA
  kHead,
  kVector,   // norms and biases
  kAdapter,  // LoRA and DoRA
};

// How a product of torchao's Float8Linear converts its factors: by kernels of their own, or fused by a compiler.
enum class Float8 : std::uint8_t { kNone, kEager, kFused };

struct Weight {
  std::int64_t elements = 0;
  std::int64_t rows = 0;  // dim 0 as stored: FSDP2 pads it
  std::int64_t out = 0;   // output features of a linear
  WeightKind kind = WeightKind::kMatrix;
  std::uint8_t width = 2;  // bytes per element as the graph sees it
  bool trainable = true;
  bool quantized = false;  // 4-bit or 8-bit storage
  bool projected = false;  // GaLore: its gradient is brought to a low rank
  Float8 float8 = Float8::kNone;
  bool gathered_float8 = false;  // FSDP brings it converted
  bool by_input = false;         // stored [in, out] (GPT-2)
  bool loose = false;            // used through a transpose: autocast does not keep its copy
  bool per_channel = false;      // a vector along the last dimension
  std::int32_t layer = -1;
  // DTensor computes the gradient of a split table whole, so many times the weight, and cuts it when it is reduced.
  std::int64_t grad_parts = 1;
  Tensor memory{};
  Tensor grad{};
};

}  // namespace plimsoll::step::transformers
