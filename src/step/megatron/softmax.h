// SPDX-License-Identifier: Apache-2.0
// The softmax of attention whose scores are tensors: what it keeps, forward and backward (facts
// megatron-memory.md 4.3).
#pragma once

#include <cstdint>

#include "step/tape.h"

namespace plimsoll::step::megatron {

// Bytes of all scores of a rank.
struct ScoreSizes {
  std::int64_t scores = 0;   // in the type of the products
  std::int64_t softmax = 0;  // kept in fp32; 0: in that type
  std::int64_t mask = 0;     // of dropout; 0: there is none
  std::int64_t dropped = 0;
};

// What the backward needs, of one layer.
struct KeptScores {
  Tensor& softmax;
  Tensor& mask;
  Tensor& dropped;  // what the product with the values took, where it is not the softmax itself
};

// From the product of queries and keys to what the product with the values takes.
void softmax_forward(Tape& tape, const ScoreSizes& sizes, KeptScores kept);
// Frees what was kept and `grad`, that of what the product with the values took; returns that of the scores.
[[nodiscard]] Tensor softmax_backward(Tape& tape, const ScoreSizes& sizes, KeptScores kept, Tensor& grad);

}  // namespace plimsoll::step::megatron
