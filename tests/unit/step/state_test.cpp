// SPDX-License-Identifier: Apache-2.0
// Model state: buffers and their padding, construction, optimizer bytes per parameter (facts
// megatron-memory.md 3.1, 3.2, 3.4; megatron-anatomy.md 1.2, 1.3, 4).
#include "step/megatron/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "support.h"

namespace plimsoll::step::megatron {
namespace {

using test::completed;

constexpr std::int64_t kOneBucket = std::numeric_limits<std::int64_t>::max();

std::vector<Weight> weights_of(std::initializer_list<std::int64_t> elements) {
  std::vector<Weight> weights;
  for (const std::int64_t n : elements) weights.push_back({n});
  return weights;
}

TEST(BufferPlan, every_parameter_starts_on_a_multiple_of_64_elements) {
  // Reverse creation order: 100 at 0, 65 at 128, 64 at 256, ends at 320; rounded to lcm(1,128).
  EXPECT_EQ(plan_buffer(weights_of({64, 65, 100}), false, 1, 0, kOneBucket, false).elements, 384);
  EXPECT_EQ(plan_buffer(weights_of({64, 64}), false, 1, 0, kOneBucket, false).elements, 128);
}

TEST(BufferPlan, a_bucket_ends_on_a_multiple_of_shards_and_128) {
  EXPECT_EQ(plan_buffer(weights_of({1}), false, 1, 0, kOneBucket, false).elements, 128);
  EXPECT_EQ(plan_buffer(weights_of({1}), false, 64, 0, kOneBucket, false).elements, 128);
  EXPECT_EQ(plan_buffer(weights_of({1}), false, 256, 0, kOneBucket, false).elements, 256);
  EXPECT_EQ(plan_buffer(weights_of({1}), false, 3, 0, kOneBucket, false).elements, 384);
  EXPECT_EQ(plan_buffer(weights_of({1}), false, 3, 0, kOneBucket, true).elements, 3 * 65536) << "for bus bandwidth";
}

TEST(BufferPlan, each_full_bucket_is_padded_by_itself) {
  // 1000 elements reach the bucket of 1000: 1024 with padding; the next begins there.
  EXPECT_EQ(plan_buffer(weights_of({1000, 1000}), false, 1, 0, 1000, false).elements, 2048);
  EXPECT_EQ(plan_buffer(weights_of({1000, 1000}), false, 1, 0, kOneBucket, false).elements, 2048);
  EXPECT_EQ(plan_buffer(weights_of({60, 60}), false, 1, 0, 60, false).elements, 256);
  EXPECT_EQ(plan_buffer(weights_of({60, 60}), false, 1, 0, kOneBucket, false).elements, 128);
}

TEST(BufferPlan, a_shared_embedding_has_a_bucket_of_its_own) {
  std::vector<Weight> weights = weights_of({60, 60, 60});
  weights[1].shared_embedding = true;
  EXPECT_EQ(plan_buffer(weights, false, 1, 0, kOneBucket, false).elements, 3 * 128);
}

TEST(BufferPlan, experts_and_dense_weights_have_separate_buffers_and_frozen_ones_none) {
  std::vector<Weight> weights = weights_of({128, 256, 512});
  weights[1].expert = true;
  weights[2].frozen = true;
  EXPECT_EQ(plan_buffer(weights, false, 1, 0, kOneBucket, false).elements, 128);
  EXPECT_EQ(plan_buffer(weights, true, 1, 0, kOneBucket, false).elements, 256);
}

// Property: over all shards the pieces cover every element once, and no shard owns more than its share.
TEST(BufferPlan, every_element_is_owned_by_exactly_one_shard) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Weight> weights(1 + random() % 12);
    std::int64_t dense = 0;
    for (Weight& weight : weights) {
      weight.elements = static_cast<std::int64_t>(1 + random() % 5000);
      weight.decayed = random() % 2 == 0;
      weight.expert = random() % 5 == 0;
      weight.frozen = random() % 7 == 0;
      weight.shared_embedding = random() % 9 == 0;
      if (!weight.expert && !weight.frozen) dense += weight.elements;
    }
    const auto shards = static_cast<std::int64_t>(1 + random() % 17);
    const std::int64_t bucket = random() % 2 == 0 ? kOneBucket : static_cast<std::int64_t>(1 + random() % 6000);
    std::int64_t owned = 0;
    std::int64_t padded = 0;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const BufferPlan plan = plan_buffer(weights, false, shards, shard, bucket, false);
      std::int64_t mine = 0;
      for (const Piece& piece : plan.pieces) {
        EXPECT_GT(piece.elements, 0);
        EXPECT_FALSE(piece.expert);
        mine += piece.elements;
      }
      EXPECT_LE(mine, plan.elements / shards);
      EXPECT_EQ(plan.elements % std::lcm(shards, std::int64_t{128}), 0);
      owned += mine;
      padded = plan.elements;
    }
    ASSERT_EQ(owned, dense) << "round " << round;
    ASSERT_GE(padded, dense);
  }
}

// One chunk of one layer and a word embedding whose tensors are all multiples of 8192 elements, so that
// padding and block rounding vanish and bytes per parameter are exact.
job::Job state_job(std::int64_t data_parallel) {
  job::Job job = test::llama_70b();
  job.model.layers.assign(2, 0);
  job.parallel = {};
  job.parallel.tensor = 4;
  job.cluster.gpus = 4 * data_parallel;
  job.batch.global_batch = data_parallel;
  job.optimizer.impl = job::OptimizerImpl::kFused;
  return job;
}

struct Built {
  std::int64_t parameters;
  std::int64_t model;  // after each phase
  std::int64_t wrapped;
  std::int64_t wrap_peak;
  std::int64_t with_optimizer;
  std::int64_t after_update;
  std::int64_t update_peak;
  std::int64_t next_step;  // after zero_grad
  std::int64_t host;
};

Built build(const job::Job& incomplete) {
  const job::Job job = completed(incomplete);
  const auto layout = job::pipeline_layout(job);
  EXPECT_TRUE(layout);
  State state(job, layout->ranks[0], 0);
  Tape tape;
  Built b{};
  b.parameters = state.parameters();
  state.build_model(tape);
  b.model = tape.live();
  tape.begin_span();
  state.wrap(tape);
  b.wrapped = tape.live();
  b.wrap_peak = tape.span_peak();
  state.build_optimizer(tape);
  b.with_optimizer = tape.live();
  state.begin_step(tape);
  tape.begin_span();
  state.update(tape);
  b.after_update = tape.live();
  b.update_peak = tape.span_peak();
  state.begin_step(tape);
  b.next_step = tape.live();
  b.host = state.host_bytes();
  state.release(tape);
  EXPECT_EQ(tape.live(), 0);
  return b;
}

// h (a+2k) d / t + a d h / t + 3 h f / t + 2h per layer; 2 V h / t + h outside.
TEST(State, counts_the_parameters_of_the_rank) {
  const std::int64_t layer = 8192LL * 80 * 128 / 4 + 8192LL * 8192 / 4 + 3LL * 8192 * 28672 / 4 + 2 * 8192;
  EXPECT_EQ(build(state_job(1)).parameters, 2 * layer + 2LL * 128256 * 8192 / 4 + 8192);
}

TEST(State, weights_take_two_bytes_and_gradients_two_or_four) {
  job::Job job = state_job(2);
  Built b = build(job);
  EXPECT_EQ(b.model, 2 * b.parameters);
  EXPECT_EQ(b.wrapped, 6 * b.parameters);
  job.optimizer.grad_reduce_in_fp32 = false;
  b = build(job);
  EXPECT_EQ(b.wrapped, 4 * b.parameters);
}

// Facts megatron-anatomy.md 1.2: (4 + g) P for one chunk.
TEST(State, construction_holds_originals_and_both_buffers_at_once) {
  job::Job job = state_job(2);
  Built b = build(job);
  EXPECT_EQ(b.wrap_peak, 8 * b.parameters);
  job.optimizer.grad_reduce_in_fp32 = false;
  b = build(job);
  EXPECT_EQ(b.wrap_peak, 6 * b.parameters);
  job.optimizer.distributed = false;
  b = build(job);
  EXPECT_EQ(b.wrap_peak, 4 * b.parameters) << "gradient buffer only: nothing transient";
  EXPECT_EQ(b.wrapped, 4 * b.parameters);
}

// max over chunks c of [ sum_{j<=c} (2+g) P_j + sum_{j>=c} 2 P_j ].
TEST(State, virtual_chunks_are_wrapped_one_after_the_other) {
  job::Job job = state_job(2);
  job.model.layers.assign(8, 0);
  job.parallel.pipeline = 2;
  job.parallel.virtual_pipeline = 2;
  job.cluster.gpus = 16;
  job.batch.global_batch = 8;
  const std::int64_t layer = 8192LL * 80 * 128 / 4 + 8192LL * 8192 / 4 + 3LL * 8192 * 28672 / 4 + 2 * 8192;
  const std::int64_t first = 2 * layer + 128256LL * 8192 / 4;
  const std::int64_t second = 2 * layer;
  const Built b = build(job);
  EXPECT_EQ(b.parameters, first + second);
  EXPECT_EQ(b.wrap_peak, std::max(6 * first + 2 * (first + second), 6 * (first + second) + 2 * second));
}

struct Setup {
  const char* name;
  std::int64_t replicated;  // bytes per parameter
  std::int64_t sharded;     // bytes per parameter, divided by N
  std::int64_t copies;      // fp32 gradient copies between update and zero_grad, divided by N
};

void expect_setup(const job::Job& job, const Setup& setup, std::int64_t shards) {
  const Built b = build(job);
  ASSERT_EQ(b.parameters % shards, 0);
  const std::int64_t lasting = setup.replicated * b.parameters + setup.sharded * b.parameters / shards;
  EXPECT_EQ(b.next_step, lasting) << setup.name;
  EXPECT_EQ(b.after_update, lasting + setup.copies * b.parameters / shards) << setup.name;
}

TEST(Optimizer, without_sharding_costs_18_bytes_or_16_with_16_bit_gradients) {
  job::Job job = state_job(4);
  job.optimizer.distributed = false;
  expect_setup(job, {"fp32 gradients", 18, 0, 0}, 1);
  job.optimizer.grad_reduce_in_fp32 = false;
  expect_setup(job, {"bf16 gradients", 16, 0, 4}, 1);
}

TEST(Optimizer, distributed_costs_6_or_4_bytes_and_12_over_the_ranks) {
  for (const std::int64_t dp : {1, 2, 4, 8}) {
    job::Job job = state_job(dp);
    expect_setup(job, {"fp32 gradients", 6, 12, 0}, dp);
    job.optimizer.grad_reduce_in_fp32 = false;
    expect_setup(job, {"bf16 gradients", 4, 12, 4}, dp);
  }
}

TEST(Optimizer, fp16_costs_4_bytes_and_16_over_the_ranks_during_a_step) {
  job::Job job = state_job(4);
  job.precision.params = job.precision.compute = job::DType::kFp16;
  job.optimizer.grad_reduce_in_fp32 = false;
  expect_setup(job, {"fp16", 4, 12, 4}, 4);
}

TEST(Optimizer, fp32_parameters_need_no_main_copy) {
  job::Job job = state_job(4);
  job.precision.params = job.precision.compute = job::DType::kFp32;
  expect_setup(job, {"fp32", 8, 8, 0}, 4);
}

TEST(Optimizer, shards_over_data_and_context_ranks_and_within_an_instance) {
  job::Job job = state_job(2);
  job.parallel.context = 2;
  job.cluster.gpus = 16;
  expect_setup(job, {"dp 2, cp 2", 6, 12, 0}, 4);
  job = state_job(8);
  job.optimizer.instances = 2;
  expect_setup(job, {"dp 8, two instances", 6, 12, 0}, 4);
}

TEST(Optimizer, precision_aware_keeps_the_low_half_of_main_parameters) {
  job::Job job = test::with_transformer_engine(state_job(4));
  job.optimizer.precision_aware = true;
  expect_setup(job, {"fp32 moments", 6, 10, 0}, 4);
  job.optimizer.exp_avg = job.optimizer.exp_avg_sq = job::DType::kBf16;
  expect_setup(job, {"bf16 moments", 6, 6, 0}, 4);
  job.optimizer.exp_avg = job.optimizer.exp_avg_sq = job::DType::kFp8;
  expect_setup(job, {"fp8 moments", 6, 4, 0}, 4);
  job.optimizer.store_param_remainders = false;
  expect_setup(job, {"whole main parameters", 6, 6, 0}, 4);
}

TEST(Optimizer, precision_aware_keeps_whole_main_parameters_beside_fp8_of_the_newer_recipes) {
  job::Job job = test::with_transformer_engine(state_job(4));
  job.optimizer.precision_aware = true;
  for (const job::Fp8Recipe recipe :
       {job::Fp8Recipe::kTensorwise, job::Fp8Recipe::kBlockwise, job::Fp8Recipe::kMxfp8}) {
    job.precision.fp8 = recipe;
    expect_setup(job, {"whole main parameters", 6, 12, 0}, 4);
  }
  job.precision.fp8 = job::Fp8Recipe::kDelayed;
  expect_setup(job, {"delayed", 6, 10, 0}, 4);
}

TEST(Optimizer, cpu_offload_moves_its_fraction_of_the_shard_to_the_host) {
  job::Job job = test::with_transformer_engine(state_job(4));
  job.optimizer.precision_aware = true;  // Megatron asks for it
  job.optimizer.store_param_remainders = false;
  job.optimizer.cpu_offload_fraction = 1.0;
  expect_setup(job, {"all", 6, 0, 0}, 4);
  const Built all = build(job);
  EXPECT_EQ(all.host, 16 * all.parameters / 4) << "parameters, gradients and moments in fp32";
  job.optimizer.cpu_offload_fraction = 0.5;
  expect_setup(job, {"half", 6, 6, 0}, 4);
}

TEST(Optimizer, other_optimizers_keep_fewer_moments) {
  job::Job job = state_job(4);
  job.optimizer.kind = job::OptimizerKind::kSgd;
  expect_setup(job, {"SGD with momentum", 6, 8, 0}, 4);
  job.optimizer.momentum = false;
  expect_setup(job, {"SGD", 6, 4, 0}, 4);
  job.optimizer.kind = job::OptimizerKind::kLion;
  expect_setup(job, {"Lion", 6, 8, 0}, 4);
}

TEST(Optimizer, moments_appear_with_the_first_update) {
  const Built b = build(state_job(4));
  EXPECT_EQ(b.with_optimizer, 6 * b.parameters + 4 * b.parameters / 4);
  EXPECT_EQ(b.after_update, 6 * b.parameters + 12 * b.parameters / 4);
}

// Facts megatron-anatomy.md 4: sqrt(v) of all matrices at once.
TEST(Optimizer, foreach_adam_needs_four_bytes_more_per_owned_matrix_element) {
  job::Job job = state_job(1);
  job.optimizer.impl = job::OptimizerImpl::kForeach;
  const Built b = build(job);
  const std::int64_t norms = 5 * 8192;
  // The norms' moments come after the matrices' temporaries are gone.
  EXPECT_EQ(b.update_peak,
            6 * b.parameters + 4 * b.parameters + 8 * (b.parameters - norms) + 4 * (b.parameters - norms));
}

job::Job fsdp_70b() {
  job::Job job = test::llama_70b();
  job.parallel = {};
  job.sharding.kind = job::ShardingKind::kMegatronFsdp;
  job.sharding.double_buffer = true;
  return job;
}

// Facts megatron-memory.md 3.5.
TEST(MegatronFsdp, a_model_on_the_meta_device_never_exists_whole) {
  job::Job job = fsdp_70b();
  const Built whole = build(job);
  job.sharding.meta_init = true;
  const Built by_shards = build(job);
  EXPECT_EQ(whole.model, 2 * whole.parameters);
  EXPECT_EQ(by_shards.model, 0);
  EXPECT_EQ(by_shards.wrapped, whole.wrapped);
  EXPECT_LT(by_shards.wrap_peak, whole.wrap_peak - 2 * whole.parameters + 8 * 128256LL * 8192);
}

TEST(MegatronFsdp, what_is_outside_units_is_sharded_and_gathered_for_good) {
  const job::Job job = fsdp_70b();
  const Built b = build(job);
  const std::int64_t table = 128256LL * 8192;
  const std::int64_t final_norm = 8192;
  // 2 bytes of weights and of gradients in shards; both tables and the last norm gathered, and the gradient of the
  // output layer: the embedding's is made when everything else is reduced.
  const std::int64_t gathered = 2 * (2 * table + final_norm) + 2 * (table + final_norm);
  EXPECT_NEAR(static_cast<double>(b.wrapped), static_cast<double>(4 * b.parameters / 32 + gathered), 1e5);
}

TEST(MegatronFsdp, gathers_fp8_weights_in_a_byte_and_mxfp8_in_two) {
  job::Job job = fsdp_70b();
  job.cluster.gpu = cluster::find_gpu("gb200").value();
  const auto gathered = [](const job::Job& asked) {
    const Built b = build(asked);
    return b.next_step - b.after_update;  // without double buffers begin_step gathers again
  };
  job.sharding.double_buffer = false;
  job.sharding.kind = job::ShardingKind::kFsdp2;  // two units in flight
  const std::int64_t in_16_bits = gathered(job);
  job.precision.fp8_param_gather = true;
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  const std::int64_t in_a_byte = gathered(job);
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  job.precision.reuse_grad_buffer_for_mxfp8 = true;  // Megatron-FSDP does not
  const std::int64_t in_both_directions = gathered(job);
  const std::int64_t unit = 8192LL * (8192 * 2 + 2 * 1024 + 3 * 28672);  // matrices of a layer
  EXPECT_EQ(in_16_bits - in_a_byte, 2 * unit);
  EXPECT_EQ(in_both_directions, in_16_bits);
}

TEST(Optimizer, weights_in_nvfp4_leave_no_bits_to_make_main_weights_of) {
  job::Job job = test::llama_70b();
  job.optimizer.precision_aware = true;
  job.optimizer.impl = job::OptimizerImpl::kFused;
  job.precision.fp4 = true;
  const Built from_16_bits = build(job);
  job.precision.fp4_param_gather = true;
  const Built from_4_bits = build(job);
  EXPECT_GT(from_4_bits.with_optimizer - from_4_bits.wrapped,
            2 * (from_16_bits.with_optimizer - from_16_bits.wrapped) - 1'000'000);
}

}  // namespace
}  // namespace plimsoll::step::megatron
