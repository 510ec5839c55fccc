// SPDX-License-Identifier: Apache-2.0
// GRPO of TRL: how the trainer shards is in files beside the script, and nothing that decides memory goes unread.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rl/frameworks/settings.h"
#include "rl/frameworks/tools.h"

namespace plimsoll::rl {
namespace {

namespace fs = std::filesystem;

std::string value(const ConfigSettings& config, std::string_view key) {
  return std::string{setting(config.settings, key)};
}

class TrlFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "trl";
    fs::create_directories(folder_);
    std::ofstream(folder_ / "two.yaml") << "distributed_type: DEEPSPEED\nnum_processes: 4\n"
                                           "deepspeed_config: {zero_stage: 2}\n";
    std::ofstream(folder_ / "plain.yaml") << "distributed_type: MULTI_GPU\nnum_processes: 4\n";
    std::ofstream(folder_ / "engine.json") << R"({"zero_optimization": {"stage": 1, "offload_optimizer":
      {"device": "cpu"}}})";
  }
  Result<ConfigSettings> read(const std::string& launcher, const std::string& flags) const {
    const std::string script = launcher +
                               " grpo.py --model_name_or_path Qwen/Qwen2.5-1.5B --num_generations 8 "
                               "--max_completion_length 1024 --per_device_train_batch_size 4 --bf16 true " +
                               flags + "\n";
    EXPECT_EQ(recognise_tool(script), Tool::kTrl);
    return read_tool_settings(Tool::kTrl, (folder_ / "run.sh").string(), script, {});
  }
  fs::path folder_;
};

TEST_F(TrlFiles, accelerates_file_says_stage_and_gpus) {
  const auto two = read("accelerate launch --config_file two.yaml", "");
  ASSERT_TRUE(two) << to_string(two.error());
  EXPECT_EQ(value(*two, "zero_stage"), "2");
  EXPECT_EQ(value(*two, "gpus"), "4");
  const auto plain = read("accelerate launch --config_file plain.yaml", "");
  ASSERT_TRUE(plain) << to_string(plain.error());
  EXPECT_EQ(value(*plain, "zero_stage"), "0");
}

TEST_F(TrlFiles, a_file_of_deepspeed_is_read_for_its_stage_and_offload) {
  const auto run = read("torchrun --nproc_per_node 8", "--deepspeed engine.json");
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_EQ(value(*run, "zero_stage"), "1");
  EXPECT_EQ(value(*run, "offload_optimizer_device"), "cpu");
  const auto named = read("torchrun --nproc_per_node 8", "--deepspeed elsewhere/ds_zero2.json");
  ASSERT_TRUE(named) << to_string(named.error());
  EXPECT_EQ(value(*named, "zero_stage"), "2");
}

TEST_F(TrlFiles, arguments_in_a_table_of_the_trainer_are_read) {
  const std::string file =
      "model_name: Qwen/Qwen2.5-1.5B\ntraining_config:\n  per_device_train_batch_size: 2\n  num_generations: 4\n"
      "  max_completion_length: 512\n  gradient_accumulation_steps: 6\n";
  const auto run = read_tool_settings(Tool::kTrl, "grpo.yaml", file, {{"gpus", "4"}});
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_EQ(value(*run, "model"), "Qwen/Qwen2.5-1.5B");
  EXPECT_EQ(value(*run, "group_size"), "4");
  EXPECT_EQ(value(*run, "prompts_batch_size_for_trainer"), "12");  // 2 * 6 * 4 samples in groups of 4
}

TEST_F(TrlFiles, a_quantised_base_and_a_split_are_not_passed_over) {
  const auto run = read("torchrun --nproc_per_node 8", "--use_peft true --lora_r 16 --load_in_4bit true");
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_EQ(value(*run, "load_in_4bit"), "true");
  EXPECT_FALSE(read("torchrun --nproc_per_node 8", "--sequence_parallel_size 4"));
}

}  // namespace
}  // namespace plimsoll::rl
