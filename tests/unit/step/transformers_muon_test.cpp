// SPDX-License-Identifier: Apache-2.0
// torch.optim.Muon beside AdamW: states by kind of tensor, and what its iterations hold.
#include <gtest/gtest.h>

#include "step/transformers/optimizer.h"

namespace plimsoll::step::transformers {
namespace {

Updated matrix(std::int64_t rows, std::int64_t columns, std::uint8_t width, WeightKind kind = WeightKind::kMatrix) {
  Updated t;
  t.elements = rows * columns;
  t.rows = rows;
  t.columns = columns;
  t.width = width;
  t.kind = kind;
  return t;
}

job::Job with_muon() {
  job::Job job;
  job.optimizer.kind = job::OptimizerKind::kMuon;
  job.optimizer.impl = job::OptimizerImpl::kFused;
  return job;
}

constexpr std::int64_t kSide = 1024;
constexpr std::int64_t kSquare = 2 * kSide * kSide;  // bytes in bf16

TEST(Muon, KeepsOneMomentumOfAMatrixAndAdamsStatesOfTheRest) {
  const job::Job job = with_muon();
  Updated vector = matrix(1, kSide, 2, WeightKind::kVector);
  vector.columns = 0;
  OptimizerStates states(job, {matrix(8 * kSide, kSide, 2, WeightKind::kEmbedding), matrix(kSide, kSide, 2), vector});
  Tape tape(true);
  states.step(tape);
  constexpr std::int64_t kCounters = 2 * kBlockUnit;
  EXPECT_EQ(tape.live(), 2 * 8 * kSquare + kSquare + 2 * 2 * kSide + kCounters);
}

// Recorded: the update, an iterate, and the Gram matrix beside the last one and its polynomial.
TEST(Muon, HoldsFiveSquaresForASquareMatrix) {
  const job::Job job = with_muon();
  OptimizerStates states(job, {matrix(kSide, kSide, 2)});
  Tape tape(true);
  states.step(tape);
  EXPECT_EQ(tape.peak(), kSquare + 5 * kSquare);
  EXPECT_EQ(tape.live(), kSquare);
}

TEST(Muon, TakesGramMatricesOfTheShorterSide) {
  const job::Job job = with_muon();
  for (const bool wide : {false, true}) {
    OptimizerStates states(job, {wide ? matrix(kSide, 4 * kSide, 2) : matrix(4 * kSide, kSide, 2)});
    Tape tape(true);
    states.step(tape);
    // Momentum, update and two iterates of four squares, one Gram matrix and its polynomial.
    EXPECT_EQ(tape.peak(), 4 * 4 * kSquare + 2 * kSquare);
  }
}

TEST(Muon, IteratesInSixteenBits) {
  const job::Job job = with_muon();
  OptimizerStates states(job, {matrix(kSide, kSide, 4)});
  Tape tape(true);
  states.step(tape);
  EXPECT_EQ(tape.peak(), 2 * kSquare + 2 * kSquare + 4 * kSquare);
}

TEST(Muon, KeepsTheLastResultUntilTheNextUpdateIsMade) {
  const job::Job job = with_muon();
  OptimizerStates states(job, {matrix(kSide, kSide, 2), matrix(16, kSide, 2)});
  Tape tape(true);
  states.step(tape);
  bool together = false;
  std::int64_t live = 0;
  for (const Event& event : tape.events()) {
    live += event.bytes;
    together = together || (event.bytes == 2 * 16 * kSide && live == 2 * kSquare + 2 * 2 * 16 * kSide);
  }
  EXPECT_TRUE(together);
}

}  // namespace
}  // namespace plimsoll::step::transformers
