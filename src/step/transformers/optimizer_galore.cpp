// SPDX-License-Identifier: Apache-2.0
// AdamW on gradients of a low rank, one tensor after the other: GaLore's, brought there by singular vectors of their
// own, and APOLLO's, brought there by random numbers (facts other-frameworks-memory.md 2.8.1, 2.8.2).
#include <algorithm>

#include "base/checked.h"
#include "step/transformers/optimizer.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kBlock8bit = 256;      // elements per fp32 scale
constexpr std::int64_t kSmallest8bit = 4096;  // fewer elements keep 32-bit states

struct LowRank {
  std::int64_t vectors = 0;   // elements of what brings the gradient there, on the shorter side
  std::int64_t gradient = 0;  // of the projected gradient
};

// Of singular vectors there are no more than the shorter side has; of random ones there are.
LowRank low_rank(const Updated& t, std::int64_t asked, bool is_random) {
  const std::int64_t shorter = std::min(t.rows, t.columns);
  const std::int64_t rank = is_random ? asked : std::min(asked, shorter);
  return {rank * shorter, rank * std::max(t.rows, t.columns)};
}

}  // namespace

void OptimizerStates::make_projected_states(Tape& tape, const Updated& t, std::int64_t vectors, std::int64_t gradient) {
  if (vectors > 0) states_.push_back(tape.alloc(vectors * t.width, Name::kMoment));
  const bool narrow = job_.optimizer.kind == job::OptimizerKind::kAdam8bit;
  const bool small = gradient < kSmallest8bit;
  for (int moment = 0; moment < 2; ++moment) {
    const std::int64_t width = !narrow ? t.width : small ? 4 : 1;
    states_.push_back(tape.alloc(gradient * width, Name::kMoment));
    if (narrow && !small) states_.push_back(tape.alloc(4 * ceil_div(gradient, kBlock8bit), Name::kMoment));
  }
}

void OptimizerStates::galore(Tape& tape, const Updated& t, bool makes) {
  const bool narrow = job_.optimizer.kind == job::OptimizerKind::kAdam8bit;
  const auto temporary = [&](std::int64_t bytes) { return tape.alloc(bytes, Name::kOptimizerTemp); };
  const LowRank low = low_rank(t, job_.optimizer.projection_rank, false);
  // The decomposition in fp32: the matrix where it was narrower, the copy that the solver overwrites, and all vectors.
  Tensor wide = t.width < 4 ? temporary(4 * t.elements) : Tensor{};
  Tensor copy = temporary(4 * t.elements);
  const std::int64_t shorter = std::min(t.rows, t.columns);
  Tensor left = temporary(4 * t.rows * shorter);
  Tensor right = temporary(4 * shorter * t.columns);
  tape.free(copy);
  if (makes) make_projected_states(tape, t, low.vectors, low.gradient);
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

// The numbers are drawn in fp32, divided, and converted where the gradient is narrower, of which a copy in fp32 stands
// beside them. The gradient itself is scaled by what the states make of its projection; from the second step on its
// growth is limited by another copy.
void OptimizerStates::apollo(Tape& tape, const Updated& t, bool makes) {
  const auto temporary = [&](std::int64_t bytes) { return tape.alloc(bytes, Name::kOptimizerTemp); };
  const LowRank low = low_rank(t, job_.optimizer.projection_rank, true);
  const std::int64_t scale_bytes = 4;
  Tensor wide = t.width < 4 ? temporary(4 * t.elements) : Tensor{};
  Tensor drawn = temporary(4 * low.vectors);
  Tensor divided = temporary(4 * low.vectors);
  tape.free(drawn);
  if (makes) states_.push_back(tape.alloc(low.vectors * t.width, Name::kMoment));
  tape.free(divided);
  if (wide.bytes > 0) tape.free(wide);
  Tensor gradient = temporary(low.gradient * t.width);
  if (makes) make_projected_states(tape, t, 0, low.gradient);
  Tensor root = temporary(low.gradient * t.width);
  Tensor normed = temporary(low.gradient * t.width);
  Tensor scaled = temporary(t.width * t.elements);
  if (makes) {
    states_.push_back(tape.alloc(scale_bytes, Name::kMoment));  // the norm that growth is measured by
  } else {
    tape.touch(t.width * t.elements, Name::kOptimizerTemp);
  }
  for (Tensor* one : {&scaled, &normed, &root, &gradient}) tape.free(*one);
}

void OptimizerStates::project(Tape& tape, Tensors of, bool makes) {
  const bool narrow = job_.optimizer.kind == job::OptimizerKind::kAdam8bit;
  for (const Updated& t : of) {
    if (t.projected && t.columns > 0) {
      if (job_.optimizer.random_projection) {
        apollo(tape, t, makes);
      } else {
        galore(tape, t, makes);
      }
      continue;
    }
    if (makes) make_states(tape, t);
    if (narrow) continue;
    Tensor root = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    Tensor scaled = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    tape.free(root);
    tape.free(scaled);
  }
}

}  // namespace plimsoll::step::transformers
