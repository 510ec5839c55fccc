// SPDX-License-Identifier: Apache-2.0
// What encoders do that decoders do not: losses of logits as they come, biases that are trained, convolutions.
#include <gtest/gtest.h>

#include <algorithm>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {
namespace {

class TransformersEncoder : public ::testing::Test {
 protected:
  Tape tape{true};
  std::vector<Weight> weights;
  Device device;
  Graph g{tape, weights, device};

  std::int32_t add_weight(std::int64_t rows, std::int64_t columns) {
    Weight w;
    w.elements = rows * columns;
    w.rows = w.out = rows;
    w.width = 2;
    weights.push_back(w);
    return static_cast<std::int32_t>(weights.size()) - 1;
  }
  Var input(std::int64_t elements, std::uint8_t width) {
    Var x = g.alloc(elements, width, Name::kHidden);
    g.require_grad(x);
    return x;
  }
  // Whether a tensor of this many bytes was asked for.
  bool asked_for(std::int64_t bytes) const {
    return std::any_of(tape.events().begin(), tape.events().end(),
                       [bytes](const Event& event) { return event.requested == bytes; });
  }
};

constexpr std::int64_t kLogits = 1 << 20;

TEST_F(TransformersEncoder, LossKeepsNarrowLogarithmsAndAWideCopyUnderAutocast) {
  g.autocast = true;
  Var logits = input(kLogits, 2);
  const std::int64_t before = tape.live();
  const Var loss = cross_entropy(g, logits, {});
  EXPECT_EQ(tape.live() - before, (2 + 4) * kLogits + 2 * kBlockUnit);
}

TEST_F(TransformersEncoder, LossKeepsOneCopyOfFp32Logits) {
  g.autocast = true;
  Var logits = input(kLogits, 4);
  const std::int64_t before = tape.live();
  const Var loss = cross_entropy(g, logits, {});
  EXPECT_EQ(tape.live() - before, 4 * kLogits + 2 * kBlockUnit);
}

TEST_F(TransformersEncoder, NarrowLossComesBackNarrow) {
  g.autocast = true;
  Var logits = input(kLogits, 2);
  const std::int32_t producer = logits.node;
  Var loss = cross_entropy(g, logits, {});
  logits.reset();
  g.autocast = false;
  g.start_backward(loss, g.alloc(1, 4, Name::kTokens));
  loss.reset();
  g.backward(static_cast<std::size_t>(producer) + 1);
  const Var grad = g.take_grad(producer);
  EXPECT_EQ(grad.width, 2);
  EXPECT_EQ(grad.elements, kLogits);
}

// The bias is added in place, and its gradient is the sum over the batch in the dtype of the bias.
TEST_F(TransformersEncoder, BiasOfScoresIsAddedInPlaceAndTakesAGradient) {
  constexpr std::int64_t kPairs = 1 << 16;
  Var scores = input(4 * kPairs, 4);
  Var bias = input(kPairs, 2);
  const std::int32_t bias_node = bias.node;
  const std::int64_t before = tape.live();
  Var sum = add_bias(g, scores, bias);
  EXPECT_EQ(tape.live(), before);
  scores.reset();
  bias.reset();
  g.start_backward(sum, g.alloc(4 * kPairs, 4, Name::kGrad));
  sum.reset();
  g.backward(static_cast<std::size_t>(bias_node) + 1);
  const Var grad = g.take_grad(bias_node);
  EXPECT_EQ(grad.elements, kPairs);
  EXPECT_EQ(grad.width, 2);
}

// Whisper's first convolution as recorded: 4 x 80 x 3000 to 4 x 768 x 3000 with a kernel of 3.
TEST_F(TransformersEncoder, ConvolutionLaysItsArgumentsOutAnew) {
  const std::int32_t w = add_weight(768, 80 * 3);
  const Var x = g.alloc(4 * 80 * 3000, 2, Name::kTokens);
  const Var y = convolution(g, x, w, -1, 4 * 768 * 3000, 80);
  EXPECT_TRUE(asked_for(2 * (4 * 80 * 3000 + 768 * 80 * 3 + 4 * 768 * 3000) + 16));
}

// A ViT as recorded: three colours are padded to eight channels (38,469,648 bytes).
TEST_F(TransformersEncoder, ColoursArePaddedToEightChannels) {
  const std::int32_t w = add_weight(768, 3 * 16 * 16);
  const Var x = g.alloc(32 * 3 * 224 * 224, 2, Name::kTokens);
  const Var y = convolution(g, x, w, -1, 32 * 196 * 768, patch_channels(196));
  EXPECT_TRUE(asked_for(38469648));
}

TEST_F(TransformersEncoder, LargeImagesTakeNoWorkspace) {
  const std::int32_t w = add_weight(768, 3 * 14 * 14);
  const Var x = g.alloc(2 * 3 * 448 * 448, 2, Name::kTokens);
  const std::size_t before = tape.events().size();
  const Var y = convolution(g, x, w, -1, 2 * 1024 * 768, patch_channels(1024));
  EXPECT_EQ(tape.events().size(), before + 1);
}

// CUB's radix sort as recorded: 83,456 bytes (whole blocks) for 4,096 ids.
TEST_F(TransformersEncoder, GradientOfAnEmbeddingSortsItsIds) {
  const std::int32_t table = add_weight(8192, 16);
  const Var ids = g.alloc(4096, 8, Name::kTokens);
  Var rows = embedding(g, ids, 4096, 16, table);
  g.start_backward(rows, g.alloc(rows.elements, 2, Name::kGrad));
  rows.reset();
  g.backward(0);
  EXPECT_TRUE(
      std::any_of(tape.events().begin(), tape.events().end(), [](const Event& event) { return event.bytes == 83456; }));
}

TEST_F(TransformersEncoder, NormLaysOutWhatIsStoredPlaceByPlace) {
  constexpr std::int64_t kRows = 128;
  Var x = input(64 * kRows, 4);
  const auto highest = [&] {
    const std::int64_t before = tape.live();
    tape.begin_span();
    const Var y = layer_norm(g, x, kRows, -1, -1, Name::kNormOutput);
    EXPECT_FALSE(y.head_major);
    return tape.span_peak() - before;
  };
  const std::int64_t plain = highest();
  x.head_major = true;
  EXPECT_EQ(highest() - plain, 4 * 64 * kRows);
}

}  // namespace
}  // namespace plimsoll::step::transformers
