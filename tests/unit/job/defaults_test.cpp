// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

TEST(Defaults, megatron_lm_is_fp32_with_transformer_engine_and_nothing_shared) {
  const Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_EQ(job.precision.params, DType::kFp32);
  EXPECT_EQ(job.kernels.implementation, Implementation::kTransformerEngine);
  EXPECT_EQ(job.kernels.loss, LossKind::kUnfused);
  EXPECT_TRUE(job.kernels.mask_in_dataloader);
  EXPECT_FALSE(job.optimizer.distributed);
  EXPECT_FALSE(job.moe.grouped_gemm);
  EXPECT_EQ(job.moe.dispatcher, DispatcherKind::kAllGather);
  EXPECT_FALSE(job.parallel.sequence_parallel);
  EXPECT_TRUE(job.environment.empty());
}

TEST(Defaults, megatron_bridge_is_bf16_with_its_launchers_environment) {
  const Job job = defaults_for(Framework::kMegatronBridge);

  EXPECT_TRUE(job.asked.bf16);
  EXPECT_TRUE(job.optimizer.grad_reduce_in_fp32);
  EXPECT_TRUE(job.optimizer.distributed);
  EXPECT_FALSE(job.pad_vocab);
  EXPECT_EQ(job.environment.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(job.environment.at("NCCL_NVLS_ENABLE"), "0");
}

TEST(Defaults, transformers_follows_trainer) {
  const Job job = defaults_for(Framework::kTransformers);

  EXPECT_EQ(job.batch.micro_batch, 8);
  EXPECT_EQ(job.optimizer.impl, OptimizerImpl::kFused);
  EXPECT_EQ(job.kernels.loss, LossKind::kTransformers);
  EXPECT_EQ(job.sharding.kind, ShardingKind::kNone);
  EXPECT_TRUE(job.clip_grad);
}

TEST(Defaults, deepspeed_starts_at_its_own_bucket_sizes) {
  const Job job = defaults_for(Framework::kDeepSpeed);

  EXPECT_EQ(job.sharding.kind, ShardingKind::kZero);
  EXPECT_EQ(job.sharding.zero_stage, 0);
  EXPECT_EQ(job.sharding.reduce_bucket, 500'000'000);
  EXPECT_EQ(job.sharding.prefetch_bucket, 50'000'000);
  EXPECT_EQ(job.sharding.param_persistence, 100'000);
}

TEST(Defaults, torchtitan_checkpoints_every_second_layer) {
  const Job job = defaults_for(Framework::kTorchtitan);

  EXPECT_EQ(job.batch.micro_batch, 8);
  EXPECT_EQ(job.batch.seq_length, 2048);
  EXPECT_EQ(job.recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_EQ(job.recompute.every_nth_layer, 2);
  EXPECT_EQ(job.sharding.units, FsdpUnits::kTorchtitan);
}

TEST(Defaults, every_framework_completes_with_a_model) {
  for (const Framework framework : {Framework::kMegatronLm, Framework::kMegatronBridge, Framework::kTransformers,
                                    Framework::kFsdp2, Framework::kDeepSpeed, Framework::kTorchtitan}) {
    Job job = test::llama_8b(framework);

    EXPECT_EQ(test::text_of(complete(job)), "no error") << name_of(framework);
    EXPECT_EQ(job.data_parallel, 64);
  }
}

}  // namespace
}  // namespace plimsoll::job
