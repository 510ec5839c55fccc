// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed configuration alone: what "auto" leaves to TrainingArguments that are not given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/effective.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;
using testing::HasSubstr;

ReadOptions llama() {
  ReadOptions options = on("h100", 8, {{"micro_batch_size", "2"}, {"seq_length", "2048"}});
  options.model = "llama3-8b";
  return options;
}

TEST(DeepSpeedAuto, what_the_arguments_would_say_is_assumed_and_told) {
  const auto job = read_text(
      R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2},
          "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "train_batch_size": "auto",
          "train_micro_batch_size_per_gpu": "auto"})",
      llama());
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->asked.bf16);
  EXPECT_FALSE(job->asked.fp16);
  EXPECT_TRUE(job->clip_grad);
  EXPECT_EQ(job->batch.accumulation, 1);
  EXPECT_THAT(job->notes, testing::Contains(HasSubstr("bf16 is assumed")));
}

TEST(DeepSpeedAuto, a_flag_decides_instead) {
  ReadOptions options = llama();
  options.overrides.emplace_back("fp16", "true");
  const auto job = read_text(
      R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2},
          "train_micro_batch_size_per_gpu": "auto"})",
      options);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->asked.fp16);
  EXPECT_FALSE(job->asked.bf16);
}

// A file that is not at hand is known by its name alone.
TEST(DeepSpeedByName, a_name_that_speaks_of_offload_is_taken_at_its_word) {
  const auto optimizer_of = [](const std::string& name) {
    const auto job = read_text(
        "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2-7B-Instruct --bf16 "
        "True --per_device_train_batch_size 2 --model_max_length 2048 --learning_rate 1e-5 "
        "--output_dir out --deepspeed elsewhere/" +
            name + "\n",
        on("h100"));
    EXPECT_TRUE(job) << text_of(job);
    return job ? optimizer_offload(job->sharding) : OffloadTarget::kNvme;
  };
  EXPECT_EQ(optimizer_of("zero3_offload.json"), OffloadTarget::kCpu);
  EXPECT_EQ(optimizer_of("zero3_no_offload.json"), OffloadTarget::kNone);
  EXPECT_EQ(optimizer_of("zero3.json"), OffloadTarget::kNone);
}

}  // namespace
}  // namespace plimsoll::job
