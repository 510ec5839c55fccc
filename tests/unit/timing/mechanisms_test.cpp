// SPDX-License-Identifier: Apache-2.0
// Mechanisms that decide a step and that no fitted value stands for.
#include <gtest/gtest.h>

#include "model/catalog.h"
#include "step/work.h"
#include "timing/collectives.h"
#include "timing/step_time.h"
#include "timing/support.h"

namespace plimsoll::timing {
namespace {

using test::llama_70b;
using test::time_of;

job::Job gpt_oss() {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model("gpt-oss-120b").value();
  job.cluster.gpu = cluster::find_gpu("b200-sxm-180gb").value();
  job.cluster.gpus = 64;
  job.parallel.expert = 8;
  job.batch.seq_length = 4096;
  job.batch.micro_batch = 4;
  job.batch.global_batch = 1280;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  return job;
}

double elements(const step::WorkList& list) {
  double sum = 0;
  for (const step::Work& w : list) sum += w.forward_elements + w.backward_elements;
  return sum;
}

// Megatron clamps, joins and adds biases with PyTorch's own kernels: fourteen passes over rows of 2880.
TEST(Mechanisms, biases_of_experts_pass_kernels_that_do_not_vectorise) {
  job::Job job = gpt_oss();
  ASSERT_TRUE(job::complete(job));
  step::WorkList list;
  step::layer_work(job, job.model.kinds.front(), false, list);
  const double rows = 4.0 * 4096 * 4;
  EXPECT_NEAR(elements(list), 14 * rows * 2880, 1);
  job.model.kinds.front().ffn.expert_bias = false;
  step::layer_work(job, job.model.kinds.front(), false, list);
  EXPECT_EQ(elements(list), 0);
}

TEST(Mechanisms, biases_of_experts_cost_a_quarter_of_a_step) {
  job::Job job = gpt_oss();
  const double biased = time_of(job).parts.memory;
  for (model::Layer& kind : job.model.kinds) kind.ffn.expert_bias = false;
  EXPECT_GT(biased - time_of(job).parts.memory, 0.2 * time_of(gpt_oss()).seconds);
}

// Five messages of a layer's two halves each: without userbuffers two of them run beside products of the backward.
TEST(Mechanisms, without_userbuffers_three_of_five_messages_stand_in_the_open) {
  job::Job job = llama_70b(4, 4, 1);
  job.parallel.tp_comm_overlap = false;
  ASSERT_TRUE(job::complete(job));
  const Machine machine(job.cluster, built_in());
  const double message = gather_seconds(machine, span_of(machine, 4, 1), 4096.0 * 8192 * 2);
  const double layers = 80.0 / 4;
  const double all = 10 * message * layers * static_cast<double>(job.micro_batches);
  const Breakdown parts = time_of(job).parts;
  EXPECT_GT(parts.tensor, 0.58 * all);
  EXPECT_LT(parts.tensor, 0.66 * all);  // ends of the model have messages, too
}

TEST(Mechanisms, attention_in_fp8_is_faster) {
  job::Job job = llama_70b();
  const double wide = time_of(job).parts.attention;
  job.precision.fp8_attention = true;
  EXPECT_LT(time_of(job).parts.attention, 0.85 * wide);
  job.precision.fp8 = job::Fp8Recipe::kNone;  // acts only with a recipe
  EXPECT_GE(time_of(job).parts.attention, wide);
}

TEST(Mechanisms, the_head_in_mxfp8_is_faster) {
  job::Job job = llama_70b(1, 1, 1);
  job.cluster.gpu = cluster::find_gpu("gb300-279gb").value();
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  const double wide = time_of(job).parts.gemm;
  job.stated["fp8_output_proj"] = "true";
  EXPECT_LT(time_of(job).parts.gemm, wide);
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  const double stated = time_of(job).parts.gemm;
  job.stated.clear();
  EXPECT_EQ(time_of(job).parts.gemm, stated);
}

}  // namespace
}  // namespace plimsoll::timing
