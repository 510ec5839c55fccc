// SPDX-License-Identifier: Apache-2.0
// GaLore: states of a low rank, and what a decomposition holds (facts other-frameworks-memory.md 2.8.1).
#include <gtest/gtest.h>

#include "step/transformers/optimizer.h"

namespace plimsoll::step::transformers {
namespace {

constexpr std::int64_t kEdge = 1024, kLowRank = 128;

Updated projected(std::int64_t rows, std::int64_t columns, std::uint8_t width) {
  return {rows * columns, rows, columns, width, WeightKind::kMatrix, true};
}

job::Job with_galore(job::OptimizerKind kind) {
  job::Job job;
  job.optimizer.kind = kind;
  job.optimizer.impl = job::OptimizerImpl::kLoop;
  job.optimizer.projection_rank = kLowRank;
  return job;
}

TEST(Galore, KeepsVectorsOfTheShorterSideAndStatesOfTheLongerOne) {
  const job::Job job = with_galore(job::OptimizerKind::kAdam);
  for (const bool wide : {false, true}) {
    OptimizerStates states(job, {wide ? projected(kEdge, 4 * kEdge, 2) : projected(4 * kEdge, kEdge, 2)});
    Tape tape(true);
    states.step(tape);
    EXPECT_EQ(tape.live(), 2 * (kLowRank * kEdge + 2 * kLowRank * 4 * kEdge));
  }
}

TEST(Galore, ARankAboveTheMatrixIsTheMatrix) {
  job::Job job = with_galore(job::OptimizerKind::kAdam);
  job.optimizer.projection_rank = 4 * kEdge;
  OptimizerStates states(job, {projected(kEdge, kEdge, 4)});
  Tape tape(true);
  states.step(tape);
  EXPECT_EQ(tape.live(), 3 * 4 * kEdge * kEdge);
}

TEST(Galore, EightBitStatesAreAByteAndScales) {
  const job::Job job = with_galore(job::OptimizerKind::kAdam8bit);
  OptimizerStates states(job, {projected(kEdge, kEdge, 2)});
  Tape tape(true);
  states.step(tape);
  constexpr std::int64_t kLow = kLowRank * kEdge;
  EXPECT_EQ(tape.live(), 2 * kLow + 2 * (kLow + 4 * kLow / 256));
}

// The matrix in fp32, the solver's copy of it, and both sides' vectors.
TEST(Galore, ADecompositionHoldsFourMatrices) {
  const job::Job job = with_galore(job::OptimizerKind::kAdam);
  OptimizerStates states(job, {projected(kEdge, kEdge, 2)});
  Tape tape(true);
  states.step(tape);
  EXPECT_EQ(tape.peak(), 4 * 4 * kEdge * kEdge);
}

// Of random rows there may be more than the matrix has.
TEST(Apollo, KeepsRandomRowsStatesOfALowRankAndANorm) {
  job::Job job = with_galore(job::OptimizerKind::kAdam);
  job.optimizer.random_projection = true;
  for (const std::int64_t rank : {kLowRank, 2 * kEdge}) {
    job.optimizer.projection_rank = rank;
    OptimizerStates states(job, {projected(4 * kEdge, kEdge, 2)});
    Tape tape(true);
    states.step(tape);
    EXPECT_EQ(tape.live(), 2 * (rank * kEdge + 2 * rank * 4 * kEdge) + kBlockUnit);
  }
}

// The first step draws; the second scales the gradient twice.
TEST(Apollo, ScalesTheGradientItself) {
  job::Job job = with_galore(job::OptimizerKind::kAdam);
  job.optimizer.random_projection = true;
  OptimizerStates states(job, {projected(kEdge, kEdge, 4)});
  Tape first(true), second(true);
  states.step(first);
  states.step(second);
  constexpr std::int64_t kMatrix = 4 * kEdge * kEdge, kLow = 4 * kLowRank * kEdge;
  EXPECT_EQ(second.peak(), 2 * kMatrix + 3 * kLow);
}

TEST(UpdatesInBackward, MakeTheStatesOfOneTensorAtATime) {
  job::Job job;
  job.optimizer.impl = job::OptimizerImpl::kLoop;
  Updated low = projected(kEdge, kEdge, 2), high = low;
  low.projected = high.projected = false;
  low.weight = 3;
  high.weight = 7;
  OptimizerStates states(job, {low, high});
  Tape tape(true);
  states.step_of(tape, 5);
  EXPECT_EQ(tape.live(), 0);
  states.step_of(tape, 7);
  states.step_of(tape, 7);
  EXPECT_EQ(tape.live(), 2 * 2 * kEdge * kEdge);
  states.step_of(tape, 3);
  EXPECT_EQ(tape.live(), 4 * 2 * kEdge * kEdge);
}

TEST(Galore, WhatIsNotProjectedHasStatesOfItsOwn) {
  const job::Job job = with_galore(job::OptimizerKind::kAdam);
  Updated plain = projected(kEdge, kEdge, 4);
  plain.projected = false;
  OptimizerStates states(job, {plain});
  Tape tape(true);
  states.step(tape);
  EXPECT_EQ(tape.live(), 2 * 4 * kEdge * kEdge);
}

}  // namespace
}  // namespace plimsoll::step::transformers
