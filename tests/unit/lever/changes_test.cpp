// SPDX-License-Identifier: Apache-2.0
#include "lever/lever.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::lever {
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
  for (const Change& change : changes_of(job, {.only_usual = true})) found.push_back(change.label);
  return found;
}

TEST(Changes, of_a_megatron_job_name_mlp_and_the_doubled_sizes) {
  EXPECT_THAT(labels(megatron_job()), IsSupersetOf({"recompute mlp", "pp 8", "tp 8", "cp 2"}));
}

TEST(Changes, keep_the_modules_that_are_recomputed_already) {
  job::Job job = megatron_job();
  job.recompute.granularity = job::RecomputeGranularity::kSelective;
  job.recompute.modules.core_attn = true;

  const std::vector<Change> changes = changes_of(job, {.only_usual = true});

  const auto mlp = std::find_if(changes.begin(), changes.end(),
                                [](const Change& change) { return change.lever == "recompute-mlp"; });
  ASSERT_NE(mlp, changes.end());
  EXPECT_THAT(mlp->settings, Contains(std::pair<std::string, std::string>("recompute_modules", "[core_attn,mlp]")));
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

TEST(Levers, have_one_row_each_with_words_and_a_proposer) {
  std::set<std::string_view> ids;
  for (const Lever& lever : levers()) {
    EXPECT_TRUE(ids.insert(lever.id).second) << lever.id;
    EXPECT_FALSE(lever.title.empty()) << lever.id;
    EXPECT_NE(lever.propose, nullptr) << lever.id;
    EXPECT_EQ(find_lever(lever.id), &lever);
  }
  EXPECT_EQ(find_lever("no-such-lever"), nullptr);
}

TEST(Levers, that_change_what_is_learned_are_proposed_only_when_asked_for) {
  job::Job job;
  job.framework = job::Framework::kTransformers;
  job.kernels.implementation = job::Implementation::kTransformers;
  const auto has_lossy = [](const std::vector<Change>& changes) {
    return std::any_of(changes.begin(), changes.end(), [](const Change& change) { return !lever_of(change).lossless; });
  };
  EXPECT_FALSE(has_lossy(changes_of(job, {})));
  EXPECT_TRUE(has_lossy(changes_of(job, {.science = true})));
}

TEST(Changes, are_written_as_flags) {
  EXPECT_EQ(as_flags({{"recompute_granularity", "selective"}, {"recompute_modules", "[core_attn,mlp]"}}),
            "--recompute-granularity selective --recompute-modules core_attn,mlp");
  EXPECT_EQ(as_flags({{"environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}),
            "--environment.PYTORCH_CUDA_ALLOC_CONF expandable_segments:True");
}

}  // namespace
}  // namespace plimsoll::lever
