// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_changes.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;

job::Job megatron_job() {
  job::Job job;
  job.framework = job::Framework::kMegatronLm;
  job.model.kinds.resize(1);
  job.parallel.tensor = 4;
  job.parallel.pipeline = 4;
  job.parallel.sequence_parallel = true;
  job.optimizer.distributed = true;
  return job;
}

std::vector<std::string> labels(const job::Job& job) {
  std::vector<std::string> found;
  for (const Change& change : usual_changes(job)) found.push_back(change.label);
  return found;
}

TEST(Changes, of_a_megatron_job_name_mlp_and_the_doubled_sizes) {
  EXPECT_THAT(labels(megatron_job()), IsSupersetOf({"recompute mlp", "pp 8", "tp 8", "cp 2"}));
}

TEST(Changes, keep_the_modules_that_are_recomputed_already) {
  job::Job job = megatron_job();
  job.recompute.granularity = job::RecomputeGranularity::kSelective;
  job.recompute.modules.core_attn = true;

  const std::vector<Change> changes = usual_changes(job);

  ASSERT_FALSE(changes.empty());
  EXPECT_THAT(changes[0].settings,
              Contains(std::pair<std::string, std::string>("recompute_modules", "[core_attn,mlp]")));
}

TEST(Changes, leave_out_what_the_job_does_already) {
  job::Job job = megatron_job();
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  job.batch.micro_batch = 1;

  const std::vector<std::string> found = labels(job);

  EXPECT_THAT(found, Not(Contains("recompute mlp")));
  EXPECT_THAT(found, Not(Contains("recompute whole layers")));
  EXPECT_THAT(found, Not(Contains("expandable segments")));
  EXPECT_THAT(found, Not(Contains("micro-batch 0")));
}

TEST(Changes, of_other_frameworks_are_their_own) {
  job::Job job;
  job.framework = job::Framework::kDeepSpeed;
  job.sharding.kind = job::ShardingKind::kZero;
  job.sharding.zero_stage = 2;
  job.batch.micro_batch = 4;

  EXPECT_THAT(labels(job), IsSupersetOf({"gradient checkpointing", "ZeRO stage 3", "micro-batch 2"}));
  EXPECT_THAT(labels(job), Not(Contains("tp 2")));
}

TEST(Changes, are_written_as_flags) {
  EXPECT_EQ(as_flags({{"recompute_granularity", "selective"}, {"recompute_modules", "[core_attn,mlp]"}}),
            "--recompute-granularity selective --recompute-modules core_attn,mlp");
  EXPECT_EQ(as_flags({{"environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}),
            "--environment.PYTORCH_CUDA_ALLOC_CONF expandable_segments:True");
}

}  // namespace
}  // namespace plimsoll::cli
