// SPDX-License-Identifier: Apache-2.0
// GaLore's AdamW, one tensor after the other: a matrix's gradient is brought to a low rank by singular vectors of its
// own, the states are of that size, and their update is brought back (facts other-frameworks-memory.md 2.8.1).
#include <algorithm>

#include "base/checked.h"
#include "step/transformers/optimizer.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kBlock8bit = 256;      // elements per fp32 scale
constexpr std::int64_t kSmallest8bit = 4096;  // fewer elements keep 32-bit states

struct LowRank {
  std::int64_t vectors = 0;   // elements of the singular vectors that are kept, on the shorter side
  std::int64_t gradient = 0;  // of the projected gradient
};

LowRank low_rank(const Updated& t, std::int64_t asked) {
  const std::int64_t shorter = std::min(t.rows, t.columns);
  const std::int64_t rank = std::min(asked, shorter);
  return {rank * shorter, rank * std::max(t.rows, t.columns)};
}

}  // namespace

void OptimizerStates::make_projected_states(Tape& tape, const Updated& t) {
  const LowRank low = low_rank(t, job_.optimizer.projection_rank);
  states_.push_back(tape.alloc(low.vectors * t.width, Name::kMoment));
  const bool narrow = job_.optimizer.kind == job::OptimizerKind::kAdam8bit;
  const bool small = low.gradient < kSmallest8bit;
  for (int moment = 0; moment < 2; ++moment) {
    const std::int64_t width = !narrow ? t.width : small ? 4 : 1;
    states_.push_back(tape.alloc(low.gradient * width, Name::kMoment));
    if (narrow && !small) states_.push_back(tape.alloc(4 * ceil_div(low.gradient, kBlock8bit), Name::kMoment));
  }
}

void OptimizerStates::galore(Tape& tape) {
  const bool narrow = job_.optimizer.kind == job::OptimizerKind::kAdam8bit;
  const auto temporary = [&](std::int64_t bytes) { return tape.alloc(bytes, Name::kOptimizerTemp); };
  for (const Updated& t : tensors_) {
    const bool projected = t.projected && t.columns > 0;
    if (!projected) {
      if (!made_) make_states(tape, t);
      if (narrow) continue;
      Tensor root = temporary(t.width * t.elements);
      Tensor scaled = temporary(t.width * t.elements);
      tape.free(root);
      tape.free(scaled);
      continue;
    }
    const LowRank low = low_rank(t, job_.optimizer.projection_rank);
    // The decomposition in fp32: the matrix where it was narrower, the copy that the solver overwrites, and all
    // vectors.
    Tensor wide = t.width < 4 ? temporary(4 * t.elements) : Tensor{};
    Tensor copy = temporary(4 * t.elements);
    const std::int64_t shorter = std::min(t.rows, t.columns);
    Tensor left = temporary(4 * t.rows * shorter);
    Tensor right = temporary(4 * shorter * t.columns);
    tape.free(copy);
    if (!made_) make_projected_states(tape, t);
    tape.free(left);
    tape.free(right);
    if (wide.bytes > 0) tape.free(wide);
    Tensor gradient = temporary(low.gradient * t.width);
    if (narrow) {  // the weight is put aside while a low-rank one stands in its place
      Tensor aside = temporary(t.width * t.elements);
      Tensor stand_in = temporary(low.gradient * t.width);
      tape.touch(2 * t.width * t.elements, Name::kOptimizerTemp);
      tape.free(aside);
      tape.free(stand_in);
    } else {
      Tensor root = temporary(low.gradient * t.width);
      Tensor scaled = temporary(low.gradient * t.width);
      Tensor back = temporary(t.width * t.elements);
      tape.touch(t.width * t.elements, Name::kOptimizerTemp);  // multiplied by the scale
      tape.free(back);
      tape.free(root);
      tape.free(scaled);
    }
    tape.free(gradient);
  }
}

}  // namespace plimsoll::step::transformers
