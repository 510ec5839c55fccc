// SPDX-License-Identifier: Apache-2.0
// Mechanisms that decide a step and that no fitted value stands for.
#include <gtest/gtest.h>

#include "model/catalog.h"
#include "step/work.h"
#include "timing/collectives.h"
#include "timing/passes.h"
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

PassCost cost_of_layer(job::Job& job) {
  EXPECT_TRUE(job::complete(job));
  const Machine machine(job.cluster, built_in());
  const Prices prices(job, machine, false);
  step::WorkList list;
  step::layer_work(job, job.model.kinds.front(), false, list);
  return price(job, prices, list);
}

// Transformer Engine starts products and casts of all experts from one call each.
TEST(Mechanisms, an_expert_more_costs_the_host_less_than_its_calls_would) {
  job::Job few = gpt_oss();
  few.precision.fp8 = job::Fp8Recipe::kMxfp8;
  for (model::Layer& kind : few.model.kinds) kind.ffn.expert_bias = false;
  job::Job many = few;
  few.parallel.expert = 64;  // 2 experts on a rank, and 16
  const PassCost two = cost_of_layer(few);
  const PassCost sixteen = cost_of_layer(many);
  const double more = (sixteen.forward.host + sixteen.backward.host - two.forward.host - two.backward.host) / 14;
  const double call = built_in().host_kernel_te;
  EXPECT_GT(more, 2 * call);
  EXPECT_LT(more, 6 * call);  // two products with three kernels and two casts each would be ten
}

job::Job local_mixture(std::int64_t experts) {
  job::Job job = llama_70b(1, 4, 1);
  job.kernels.implementation = job::Implementation::kLocal;
  job.kernels.rope_fusion = job.kernels.gradient_accumulation_fusion = false;
  job.precision.fp8 = job::Fp8Recipe::kNone;
  job.moe.grouped_gemm = false;
  for (model::Layer& kind : job.model.kinds) {
    kind.ffn.experts = experts;
    kind.ffn.experts_per_token = experts > 0 ? 2 : 0;
    kind.ffn.expert_width = experts > 0 ? 1024 : 0;
  }
  return job;
}

double host_of(const PassCost& cost) { return cost.forward.host + cost.backward.host; }

// Facts step-time.md 8a: a dense layer of Megatron's own modules costs what 61 launches do.
TEST(Mechanisms, operations_of_megatrons_own_modules_cost_the_host_what_a_profile_says) {
  job::Job dense = local_mixture(0);
  EXPECT_NEAR(host_of(cost_of_layer(dense)), 61 * built_in().host_kernel_local, 2 * built_in().host_kernel_local);
}

// Two linears and a compiled function, whose products cuBLAS chooses anew: 956 of the profile's microseconds.
TEST(Mechanisms, experts_that_run_one_by_one_cost_the_host_a_module_each) {
  job::Job four = local_mixture(4);
  job::Job twelve = local_mixture(12);
  const double each = (host_of(cost_of_layer(twelve)) - host_of(cost_of_layer(four))) / 8;
  EXPECT_NEAR(each / built_in().host_kernel_local, 956.0 / 46, 0.5);
}

TEST(Mechanisms, a_replay_of_megatrons_own_modules_costs_the_host_more_than_their_forward) {
  job::Job job = local_mixture(0);
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  const PassCost cost = cost_of_layer(job);
  EXPECT_NEAR(cost.replay.host, cost.forward.host * built_in().host_local_replay, 1e-9);
}

// Megatron's values were found on hosts faster than the one that the Trainer's are of, to which a measured speed is
// relative; of a host that nobody measured nothing is known.
TEST(Mechanisms, a_measured_host_is_compared_with_the_one_that_a_value_was_found_on) {
  Calibration measured = built_in();
  const auto set = [](Device& device) {
    device.host_speed = 1.8;
    device.host_is_measured = true;
  };
  set(measured.fallback);
  for (auto& [name, device] : measured.devices) set(device);
  const job::Job megatron = llama_70b();
  EXPECT_DOUBLE_EQ(Machine(megatron.cluster, measured).host_speed_for(megatron), 1.8 / measured.host_of_megatron);
  EXPECT_DOUBLE_EQ(Machine(megatron.cluster, built_in()).host_speed_for(megatron), 1);
  const job::Job trainer = job::defaults_for(job::Framework::kTransformers);
  EXPECT_DOUBLE_EQ(Machine(megatron.cluster, measured).host_speed_for(trainer), 1.8);
}

// Six weights of each of two layers, and three at the ends; of four data-parallel ranks each updates a quarter.
TEST(Mechanisms, a_rank_alone_pays_for_the_weights_that_it_updates) {
  job::Job job = local_mixture(0);
  job.model.hidden = 256;
  job.model.vocab = 1024;
  job.model.layers.assign(2, 0);
  job.model.kinds.front().attention.heads = job.model.kinds.front().attention.kv_heads = 4;
  job.model.kinds.front().attention.head_dim = 64;
  job.model.kinds.front().ffn.width = 512;
  job.parallel.pipeline = job.parallel.virtual_pipeline = 1;
  job.batch.seq_length = 128;
  const auto host = [&job](std::int64_t gpus, double each) {
    Calibration calibration = built_in();
    calibration.host_rank_weight = each;
    job.cluster.gpus = gpus;
    Options options;
    options.alone = true;
    options.calibration = &calibration;
    const StepTime time = time_of(job, options);
    return time.parts.host + (each > 0 ? time.parts.optimizer : 0);
  };
  constexpr double kEach = 1e-3;  // more than the update of such weights takes
  EXPECT_NEAR(host(1, kEach) - host(1, 0), 15 * kEach, 1e-9);
  EXPECT_NEAR(host(4, kEach) - host(4, 0), 15.0 / 4 * kEach, 1e-9);
}

// Four gathers of inputs and two of gradients, which are gathered once for rows and once for columns.
TEST(Mechanisms, userbuffers_gather_the_scales_of_mxfp8_by_eight_messages) {
  job::Job job = llama_70b(4, 1, 1);
  job.cluster.gpu = cluster::find_gpu("b200-sxm-180gb").value();
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  ASSERT_TRUE(job::complete(job));
  const Machine machine(job.cluster, built_in());
  Prices prices(job, machine, false);
  EXPECT_EQ(prices.gather_scales, 1);
  step::WorkList list;
  step::layer_work(job, job.model.kinds.front(), false, list);
  const PassCost with = price(job, prices, list);
  prices.gather_scales = 0;
  const PassCost without = price(job, prices, list);
  const double host = with.forward.host + with.backward.host - without.forward.host - without.backward.host;
  EXPECT_NEAR(host, 8 * prices.host_message, 1e-9);
  job.parallel.tp_comm_overlap = false;
  EXPECT_EQ(Prices(job, machine, false).gather_scales, 0);
}

TEST(Mechanisms, one_scale_of_a_gathered_tensor_needs_the_largest_element_of_all_ranks) {
  job::Job job = llama_70b(4, 1, 1);
  ASSERT_TRUE(job::complete(job));
  const Machine machine(job.cluster, built_in());
  EXPECT_EQ(Prices(job, machine, false).gather_amax, 1);
  job.precision.fp8 = job::Fp8Recipe::kDelayed;
  EXPECT_EQ(Prices(job, machine, false).gather_amax, 0);
}

// Every pass of a chunk ends with a reduction over the stage: more chunks, more of them.
TEST(Mechanisms, delayed_scaling_reduces_once_for_each_pass_of_a_chunk) {
  job::Job few = llama_70b(4, 4, 1);
  few.precision.fp8 = job::Fp8Recipe::kDelayed;
  job::Job many = few;
  many.parallel.virtual_pipeline = 5;
  many.parallel.overlap_p2p = true;
  const double more = time_of(many).parts.memory - time_of(few).parts.memory;
  const Machine machine(test::cluster_of("h100-sxm-80gb", 32), built_in());
  const double one = all_reduce_seconds(machine, span_of(machine, 8, 1), 4096);
  const double passes = 2 * 4 * static_cast<double>(16);  // forward and backward, four chunks more, micro-batches
  EXPECT_GT(more, passes * one);
  EXPECT_LT(more, 2 * passes * one);
}

// Its scales lie along rows and along columns, so bf16 is gathered.
TEST(Mechanisms, weights_of_mxfp8_are_gathered_in_two_bytes) {
  job::Job job = llama_70b(1, 1, 1);
  job.cluster.gpu = cluster::find_gpu("b200-sxm-180gb").value();
  job.optimizer.overlap_grad_reduce = true;
  job.optimizer.overlap_param_gather = false;
  job.precision.fp8_param_gather = true;
  const double tensorwise = time_of(job).parts.data;
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  job.precision.reuse_grad_buffer_for_mxfp8 = true;
  const double mxfp8 = time_of(job).parts.data;
  const Machine machine(job.cluster, built_in());
  EXPECT_GT(mxfp8 - tensorwise, 0.8 * 70e9 * 7 / 8 / machine.nvlink);
}

// Graphs of whole iterations fix the size of HybridEP's buffers; biased experts have kernels that pass over all of it.
TEST(Mechanisms, buffers_of_fixed_size_are_passed_over_whole) {
  job::Job job = gpt_oss();
  job.kernels.cuda_graphs = job::CudaGraphs::kFullIteration;
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  const double exact = time_of(job).parts.memory;
  job.stated["moe_expert_rank_capacity_factor"] = "1.5";
  const double padded = time_of(job).parts.memory;
  EXPECT_GT(padded, 1.1 * exact);
  EXPECT_LT(padded, 1.5 * exact);
  for (model::Layer& kind : job.model.kinds) kind.ffn.expert_bias = false;  // all of it is in the fused kernel
  const double fused = time_of(job).parts.memory;
  job.stated.clear();
  EXPECT_EQ(time_of(job).parts.memory, fused);
}

}  // namespace
}  // namespace plimsoll::timing
