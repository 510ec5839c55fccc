// SPDX-License-Identifier: Apache-2.0
#include "plan/ladder.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/rules.h"
#include "timing/step_time.h"

namespace plimsoll::plan {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;

job::Request input_of(const std::string& text) { return job::read_request({{"job.toml", text}}, {}).value(); }

constexpr const char* kOneGpu = R"(
framework = "transformers"
model = "qwen2.5-7b"
[cluster]
gpu = "a100-sxm-80gb"
gpus = 1
[batch]
seq_length = 4096
micro_batch_size = 4
gradient_accumulation_steps = 4
[precision]
bf16 = false
load_dtype = "bf16"
)";

constexpr const char* kZeroOne = R"(
framework = "deepspeed"
model = "llama3-8b"
[cluster]
gpu = "a100-sxm-80gb"
gpus = 8
[batch]
seq_length = 8192
micro_batch_size = 4
global_batch_size = 32
[precision]
bf16 = true
[sharding]
sharding = "zero"
zero_stage = 1
)";

constexpr const char* kDataParallel = R"(
framework = "transformers"
model = "llama3-8b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 8
[batch]
seq_length = 8192
micro_batch_size = 1
global_batch_size = 64
[precision]
bf16 = true
load_dtype = "fp32"
[sharding]
sharding = "ddp"
)";

constexpr const char* kPipeline = R"(
framework = "megatron-bridge"
model = "llama3-70b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 32
[parallel]
tensor_model_parallel_size = 4
pipeline_model_parallel_size = 4
virtual_pipeline_model_parallel_size = 5
sequence_parallel = true
[batch]
seq_length = 8192
micro_batch_size = 1
global_batch_size = 32
)";

std::optional<job::Job> allowed(const job::Request& input) {
  auto job = job::resolve(input);
  if (!job) return {};
  for (const rules::Violation& violation : rules::check(*job))
    if (violation.rule->severity == rules::Severity::kError) return {};
  return std::move(*job);
}

double seconds_per_token(const job::Job& job) {
  const auto time = timing::predict(job);
  return time ? 1 / time->tokens_per_second_per_gpu : std::numeric_limits<double>::infinity();
}

// Shortest time per token among the single rungs and the pairs that fit.
double fastest_single_or_pair(const job::Request& input, int depth = 2) {
  double best = std::numeric_limits<double>::infinity();
  const auto job = allowed(input);
  if (!job || depth == 0) return best;
  for (const lever::Change& rung : lever::changes_of(*job, {})) {
    const job::Request next_input = input.with(rung.settings);
    const auto next = allowed(next_input);
    if (!next) continue;
    const auto answer = memory::answer(*next, {});
    if (answer && answer->fits) best = std::min(best, seconds_per_token(*next));
    best = std::min(best, fastest_single_or_pair(next_input, depth - 1));
  }
  return best;
}

class LadderOf : public testing::TestWithParam<const char*> {};

TEST_P(LadderOf, a_job_is_never_slower_than_a_single_rung_or_a_pair_that_fits) {
  const job::Request input = input_of(GetParam());
  const auto ladder = climb(input, {});
  ASSERT_TRUE(ladder) << ladder.error().message;
  ASSERT_TRUE(ladder->fits);

  const auto job = job::resolve(input.with(ladder->settings));
  ASSERT_TRUE(job);
  const double before = seconds_per_token(*job::resolve(input));
  EXPECT_LE(seconds_per_token(*job), fastest_single_or_pair(input) + 2 * kSameTime * before);
}

TEST_P(LadderOf, a_job_ends_where_its_settings_fit_and_every_step_saves) {
  const job::Request input = input_of(GetParam());
  const auto ladder = climb(input, {});
  ASSERT_TRUE(ladder);

  const auto answer = memory::answer(*job::resolve(input.with(ladder->settings)), {});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->fits);
  EXPECT_EQ(answer->ranks[answer->worst].device_used, ladder->after.device_used);
  for (const LadderStep& step : ladder->steps) EXPECT_LT(step.taken.difference, 0) << step.taken.change.label;
}

TEST_P(LadderOf, a_job_keeps_the_sequences_of_a_step) {
  const job::Request input = input_of(GetParam());
  const auto ladder = climb(input, {});
  ASSERT_TRUE(ladder);

  const auto sequences = [](const job::Job& job) {
    return job.batch.micro_batch * job.data_parallel * job.micro_batches;
  };
  EXPECT_EQ(sequences(*job::resolve(input.with(ladder->settings))), sequences(*job::resolve(input)));
}

INSTANTIATE_TEST_SUITE_P(Jobs, LadderOf, testing::Values(kOneGpu, kZeroOne, kDataParallel, kPipeline));

std::vector<std::string> labels_of(const std::vector<lever::Change>& changes) {
  std::vector<std::string> labels;
  for (const lever::Change& change : changes) labels.push_back(change.label);
  return labels;
}

TEST(Rungs, of_a_data_parallel_job_are_sharding_and_the_host) {
  const auto job = job::resolve(input_of(kDataParallel));
  ASSERT_TRUE(job);
  EXPECT_THAT(labels_of(lever::changes_of(*job, {})),
              IsSupersetOf({"sharding by FSDP2", "sharding by ZeRO stage 3", "ZeRO stage 2, optimizer on the host"}));
}

TEST(Rungs, of_one_gpu_do_not_shard_over_peers) {
  const auto job = job::resolve(input_of(kOneGpu));
  ASSERT_TRUE(job);
  EXPECT_THAT(labels_of(lever::changes_of(*job, {})), Not(Contains("sharding by FSDP2")));
  EXPECT_THAT(labels_of(lever::changes_of(*job, {})), IsSupersetOf({"micro-batch 2", "micro-batch 1"}));
}

TEST(Rungs, of_megatron_lm_offload_the_optimizer_with_the_switch_that_it_needs) {
  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  job.model.kinds.resize(1);
  const std::vector<lever::Change> rungs = lever::changes_of(job, {});
  const auto host = std::find_if(rungs.begin(), rungs.end(),
                                 [](const lever::Change& rung) { return rung.label == "optimizer on the host"; });
  ASSERT_NE(host, rungs.end());
  EXPECT_THAT(host->settings, Contains(std::pair<std::string, std::string>("use_precision_aware_optimizer", "true")));
}

TEST(Rungs, that_change_the_science_hold_precision_and_adapters) {
  const auto one = job::resolve(input_of(kOneGpu).with({{"load_dtype", "fp32"}}));
  const auto many = job::resolve(input_of(kPipeline));
  ASSERT_TRUE(one && many);
  EXPECT_THAT(labels_of(lever::changes_of(*one, {.lossless = false, .science = true})),
              IsSupersetOf({"bf16", "Adafactor", "LoRA", "QLoRA (4-bit model)"}));
  EXPECT_THAT(labels_of(lever::changes_of(*many, {.lossless = false, .science = true})),
              IsSupersetOf({"FP8, tensorwise", "half the sequence length"}));
}

TEST(Rungs, that_change_the_science_are_never_taken) {
  const auto ladder = climb(input_of(kOneGpu), {});
  ASSERT_TRUE(ladder);
  for (const char* key : {"seq_length", "bf16", "peft", "load_in_4bit"})
    EXPECT_TRUE(std::none_of(ladder->settings.begin(), ladder->settings.end(), [&](const auto& setting) {
      return setting.first == key;
    })) << key;
}

}  // namespace
}  // namespace plimsoll::plan
