// SPDX-License-Identifier: Apache-2.0
// The rules of the small autograd: who frees what, and when.
#include <gtest/gtest.h>

#include "step/transformers/ops.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {
namespace {

constexpr std::int64_t kElements = 1024;

class TransformersGraph : public ::testing::Test {
 protected:
  Tape tape{true};
  std::vector<Weight> weights;
  Device device;
  Graph g{tape, weights, device};

  std::int32_t add_weight(std::int64_t in, std::int64_t out) {
    Weight w;
    w.elements = in * out;
    w.rows = w.out = out;
    weights.push_back(w);
    return static_cast<std::int32_t>(weights.size()) - 1;
  }
  Var input() {
    Var x = g.alloc(kElements, 2, Name::kHidden);
    g.require_grad(x);
    return x;
  }
};

TEST_F(TransformersGraph, AStorageDiesWithItsLastReference) {
  Var x = g.alloc(kElements, 2, Name::kHidden);
  Var same = x;
  x.reset();
  EXPECT_EQ(tape.live(), 2 * kElements);
  same.reset();
  EXPECT_EQ(tape.live(), 0);
}

TEST_F(TransformersGraph, AnOperationKeepsNothingWhereNoGradientFlows) {
  Var x = g.alloc(kElements, 2, Name::kHidden);
  Var y = keeps_input(g, x, Name::kActivation);
  x.reset();
  EXPECT_EQ(tape.live(), 2 * kElements);
}

TEST_F(TransformersGraph, AnActivationKeepsItsInputUntilItsBackward) {
  Var x = input();
  const std::int32_t producer = x.node;
  Var y = keeps_input(g, x, Name::kActivation);
  x.reset();
  EXPECT_EQ(tape.live(), 2 * 2 * kElements);
  Var grad = g.alloc(kElements, 2, Name::kGrad);
  g.start_backward(y, std::move(grad));
  y.reset();
  g.backward(static_cast<std::size_t>(producer) + 1);
  EXPECT_EQ(tape.live(), 2 * kElements);  // the gradient of x
  Var of_x = g.take_grad(producer);
  EXPECT_TRUE(of_x);
}

TEST_F(TransformersGraph, ASecondGradientIsAddedInPlaceUnlessTheFirstIsAView) {
  const std::int32_t first = add_weight(32, 32);
  const std::int32_t second = add_weight(32, 32);
  Var x = input();
  const auto start = static_cast<std::size_t>(x.node) + 1;
  Var sum = add(g, linear(g, x, first, -1, Name::kHidden), linear(g, x, second, -1, Name::kHidden), Name::kHidden);
  g.start_backward(sum, g.alloc(kElements, 2, Name::kGrad));
  const std::size_t before = tape.events().size();
  g.backward(start);
  // Products return views: both inputs' gradients, and their sum as a third tensor.
  int gradients = 0;
  for (std::size_t i = before; i < tape.events().size(); ++i)
    if (tape.events()[i].bytes > 0 && tape.events()[i].name == Name::kGrad) ++gradients;
  EXPECT_EQ(gradients, 3);
}

TEST_F(TransformersGraph, AFrozenWeightKeepsNoInput) {
  const std::int32_t w = add_weight(32, 32);
  Var x = input();
  weights[static_cast<std::size_t>(w)].trainable = false;
  Var y = linear(g, x, w, -1, Name::kHidden);
  x.reset();
  EXPECT_EQ(tape.live(), 2 * kElements);
}

TEST_F(TransformersGraph, ACheckpointKeepsItsInputAloneAndStopsItsReplayAtTheLastSavedTensor) {
  const std::int32_t w = add_weight(32, 32);
  Var x = input();
  const auto start = static_cast<std::size_t>(x.node) + 1;
  Var y = g.checkpoint(x, [&](const Var& in) {
    Var active = keeps_input(g, in, Name::kActivation);
    return linear(g, active, w, -1, Name::kLogits);
  });
  x.reset();
  EXPECT_EQ(tape.live(), 2 * 2 * kElements);  // x and y
  g.start_backward(y, g.alloc(kElements, 2, Name::kGrad));
  y.reset();
  int replayed_products = 0;
  const std::size_t before = tape.events().size();
  g.backward(start);
  for (std::size_t i = before; i < tape.events().size(); ++i)
    if (tape.events()[i].bytes > 0 && tape.events()[i].name == Name::kLogits) ++replayed_products;
  EXPECT_EQ(replayed_products, 0);
}

TEST_F(TransformersGraph, ASharedWeightWaitsForAllItsGradients) {
  const std::int32_t w = add_weight(32, 32);
  Var x = input();
  const auto start = static_cast<std::size_t>(x.node) + 1;
  Var y = linear(g, linear(g, x, w, -1, Name::kHidden), w, -1, Name::kHidden);
  g.start_backward(y, g.alloc(kElements, 2, Name::kGrad));
  g.backward(start);
  // Two products, their sum: only the sum stays.
  EXPECT_EQ(weights[static_cast<std::size_t>(w)].grad.bytes, 2 * 32 * 32);
}

TEST(TransformersReduce, SplitsTheSumOfANormWeightOverBlocks) {
  // Recorded: 768 channels over 4096 tokens took 24 MiB of partial sums and six semaphores.
  const ReduceScratch scratch = outer_reduce_scratch(768, 4096, 132);
  EXPECT_EQ(scratch.partials, 25'165'824);
  EXPECT_EQ(scratch.semaphores, 24);
}

TEST(TransformersReduce, NeedsNoScratchForFewRows) {
  EXPECT_EQ(outer_reduce_scratch(768, 64, 132).partials, 0);
  EXPECT_EQ(outer_reduce_scratch(0, 64, 132).partials, 0);
}

}  // namespace
}  // namespace plimsoll::step::transformers
