// SPDX-License-Identifier: Apache-2.0
// Bytes per score that the softmax of unfused attention keeps.
#include "step/megatron/softmax.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::step {
namespace {

using megatron::ScoreSizes;

constexpr std::int64_t kScores = 512 * 1024;

struct Ran {
  std::int64_t kept;
  std::int64_t left;  // after the backward: the gradient of the scores
};

Ran run(const ScoreSizes& sizes) {
  Tape tape;
  Tensor softmax;
  Tensor mask;
  Tensor dropped;
  softmax_forward(tape, sizes, {softmax, mask, dropped});
  const std::int64_t kept = tape.live();
  Tensor grad = tape.alloc(sizes.scores, Name::kAttentionTemp);
  const Tensor of_scores = softmax_backward(tape, sizes, {softmax, mask, dropped}, grad);
  EXPECT_EQ(of_scores.bytes, sizes.scores);
  EXPECT_EQ(tape.live(), of_scores.bytes);
  return {kept, tape.live()};
}

TEST(Softmax, one_kernel_keeps_it_in_the_type_of_the_products) {
  EXPECT_EQ(run({2 * kScores, 0, kScores, 2 * kScores}).kept, 5 * kScores);
  EXPECT_EQ(run({2 * kScores, 0, 0, 0}).kept, 2 * kScores) << "without dropout the product takes the softmax itself";
}

TEST(Softmax, in_fp32_it_is_kept_beside_what_the_product_takes) {
  EXPECT_EQ(run({2 * kScores, 4 * kScores, kScores, 2 * kScores}).kept, 7 * kScores);
  EXPECT_EQ(run({2 * kScores, 4 * kScores, 0, 0}).kept, 6 * kScores);
}

megatron::LayerSizes sizes_of(const job::Job& job) {
  return megatron::layer_sizes(job, job.model.kinds.front(), false);
}

TEST(Softmax, fp32_is_megatrons_own_without_its_fused_kernel) {
  job::Job job = test::llama_70b();
  job.kernels.attention = job::AttentionBackend::kUnfused;
  job.kernels.softmax_in_fp32 = true;
  EXPECT_EQ(sizes_of(test::completed(job)).softmax, 0) << "the fused kernel keeps 16 bits";
  job.kernels.masked_softmax_fusion = false;
  const megatron::LayerSizes sizes = sizes_of(test::completed(job));
  EXPECT_EQ(sizes.softmax, 2 * sizes.scores);
  job.kernels.softmax_in_fp32 = false;
  EXPECT_EQ(sizes_of(test::completed(job)).softmax, 0);
  job.kernels.scales_queries_by_layer = true;
  EXPECT_EQ(sizes_of(test::completed(job)).softmax, 2 * sizes.scores) << "which implies it";
  job.kernels.implementation = job::Implementation::kTransformerEngine;
  EXPECT_EQ(sizes_of(test::completed(job)).softmax, 0);
}

}  // namespace
}  // namespace plimsoll::step
