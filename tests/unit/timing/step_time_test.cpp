// SPDX-License-Identifier: Apache-2.0
#include "timing/step_time.h"

#include <gtest/gtest.h>

#include "step/work.h"
#include "timing/support.h"

namespace plimsoll::timing {
namespace {

using test::llama_70b;
using test::time_of;

TEST(StepTime, parts_sum_to_the_step) {
  const StepTime time = time_of(llama_70b());
  double sum = 0;
  for (const NamedPart& part : named_parts()) sum += time.parts.*part.field;
  EXPECT_EQ(sum, time.seconds);
  EXPECT_LT(time.low, time.seconds);
  EXPECT_GT(time.high, time.seconds);
}

// facts step-time.md 1.
TEST(StepTime, model_flops_follow_the_published_convention) {
  const auto flops = [](const char* name, std::int64_t seq) {
    job::Job job;
    job.model = model::find_model(name).value();
    job.batch.seq_length = seq;
    return step::model_flops_per_token(job);
  };
  EXPECT_NEAR(flops("llama3-8b", 8192) / 5.147e10, 1, 0.002);
  EXPECT_NEAR(flops("llama3-70b", 4096) / 4.331e11, 1, 0.002);
  EXPECT_NEAR(flops("llama3.1-405b", 8192) / 2.524e12, 1, 0.002);
  EXPECT_NEAR(flops("qwen3-30b-a3b", 4096) / 2.301e10, 1, 0.005);
  EXPECT_NEAR(flops("qwen3-235b-a22b", 4096) / 1.480e11, 1, 0.005);
  EXPECT_NEAR(flops("deepseek-v3", 4096) / 2.600e11, 1, 0.01);
  EXPECT_NEAR(flops("gpt-oss-120b", 4096) / 3.263e10, 1, 0.01);
}

TEST(StepTime, rates_belong_together) {
  const StepTime time = time_of(llama_70b());
  EXPECT_NEAR(time.tokens_per_second_per_gpu, 32 * 4096 / time.seconds / 32, 1e-6);
  EXPECT_NEAR(time.tflops_per_gpu, time.tokens_per_second_per_gpu * time.flops_per_token / 1e12, 1e-9);
  EXPECT_NEAR(time.mfu, time.tflops_per_gpu / 1979, 1e-9);
}

TEST(StepTime, without_tensor_parallelism_has_no_tensor_messages) {
  job::Job job = llama_70b(1, 8, 10);
  EXPECT_EQ(time_of(job).parts.tensor, 0);
  EXPECT_GT(time_of(llama_70b(8, 4, 5)).parts.tensor, 0);
}

TEST(StepTime, sizes_of_one_have_no_messages_and_no_bubble) {
  job::Job job = llama_70b(4, 1, 1);
  const Breakdown parts = time_of(job).parts;
  EXPECT_EQ(parts.context, 0);
  EXPECT_EQ(parts.expert, 0);
  EXPECT_EQ(parts.pipeline, 0);
  EXPECT_EQ(parts.bubble, 0);
}

TEST(StepTime, virtual_stages_shrink_the_bubble) {
  EXPECT_LT(time_of(llama_70b(4, 4, 5)).parts.bubble, time_of(llama_70b(4, 4, 1)).parts.bubble / 3);
}

TEST(StepTime, graphs_take_the_host_out_of_a_host_bound_step) {
  job::Job job = llama_70b(8, 4, 5);
  const StepTime eager = time_of(job);
  job.kernels.cuda_graphs = job::CudaGraphs::kFullIteration;
  const StepTime captured = time_of(job);
  EXPECT_GT(eager.parts.host, 0.05 * eager.seconds);
  EXPECT_LT(captured.parts.host, 0.3 * eager.parts.host);
}

TEST(StepTime, states_on_nvme_cost_the_drives_of_a_node) {
  job::Job job = job::defaults_for(job::Framework::kTransformers);
  job.model = model::find_model("llama3-8b").value();
  job.cluster = test::cluster_of("h100-sxm-80gb", 8);
  job.batch.seq_length = 4096;
  job.batch.micro_batch = 1;
  job.batch.global_batch = 8;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.sharding.kind = job::ShardingKind::kZero;
  job.sharding.zero_stage = 3;
  job.sharding.offload_optimizer = job::OffloadTarget::kCpu;
  const StepTime on_host = time_of(job);
  job.sharding.offload_optimizer = job::OffloadTarget::kNvme;
  const StepTime on_nvme = time_of(job);
  // 8 billion parameters, 12 bytes of states and 4 of gradients, read and written at 20 GB/s by all ranks together.
  EXPECT_NEAR(on_nvme.seconds - on_host.seconds, 8.03e9 * 32 / 20e9, 0.3);
  Calibration fast = built_in();
  fast.nvme_bytes *= 2;
  Options options;
  options.calibration = &fast;
  EXPECT_NEAR(time_of(job, options).parts.offload, on_nvme.parts.offload / 2, 0.01);
}

TEST(StepTime, offload_is_nearly_free_while_the_link_keeps_up) {
  job::Job job = llama_70b(4, 1, 1);
  job.cluster.gpu = cluster::find_gpu("gb200-186gb").value();
  const StepTime without = time_of(job);
  job.offload.activations = true;
  job.offload.activation_layers = 10;
  const StepTime over_c2c = time_of(job);
  EXPECT_LT(over_c2c.seconds, 1.06 * without.seconds);
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.offload.activation_layers = 79;
  const StepTime over_pcie = time_of(job);
  EXPECT_GT(over_pcie.parts.offload, 0.1 * over_pcie.seconds) << "55 GB/s do not hide all layers";
}

TEST(StepTime, reduction_in_bf16_halves_exposed_gradients) {
  job::Job job = llama_70b(8, 1, 1);
  job.optimizer.overlap_grad_reduce = job.optimizer.overlap_param_gather = false;
  job.optimizer.grad_reduce_in_fp32 = true;
  const double wide = time_of(job).parts.data;
  job.optimizer.grad_reduce_in_fp32 = false;
  EXPECT_LT(time_of(job).parts.data, 0.75 * wide);
}

TEST(StepTime, expert_messages_across_nodes_cost_more_and_overlap_hides_some) {
  job::Job job = llama_70b(1, 1, 1);
  job.model = model::find_model("qwen3-30b-a3b").value();
  job.parallel.expert = 8;
  job.parallel.expert_tensor = 1;
  job.moe.dispatcher = job::DispatcherKind::kAllToAll;
  const double inside = time_of(job).parts.expert;
  job.parallel.expert = 16;
  const double across = time_of(job).parts.expert;
  EXPECT_GT(across, 2 * inside);
  job.parallel.overlap_moe_expert_comm = true;
  EXPECT_LT(time_of(job).parts.expert, 0.7 * across);
}

TEST(StepTime, a_part_without_known_rates_is_slow_but_finite) {
  job::Job job = llama_70b();
  job.cluster.gpu.rates = {};
  const StepTime time = time_of(job);
  EXPECT_GT(time.seconds, 1);
  EXPECT_LT(time.seconds, 1e6);
}

}  // namespace
}  // namespace plimsoll::timing
