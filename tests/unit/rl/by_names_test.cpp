// SPDX-License-Identifier: Apache-2.0
// Runs of tools that are not known: a key says what it means by its name and by the part it stands in.
#include "rl/frameworks/by_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rl/frameworks/settings.h"
#include "rl/frameworks/tools.h"

namespace plimsoll::rl {
namespace {

const std::string kParts =
    "rollout_batch_size: 128\nprompt_length: 2048\nresponse_length: 8192\nnum_return_sequences_in_group: 8\n"
    "ppo_epochs: 1\nadv_estimator: reinforce\npretrain: Qwen/Qwen2.5-7B\nreward_pretrain: Qwen/Qwen2.5-72B\n"
    "actor_train:\n  model_args: {disable_gradient_checkpointing: false, dtype: bf16}\n"
    "  training_args: {learning_rate: 1.0e-6, per_device_train_batch_size: 1, gradient_accumulation_steps: 32}\n"
    "  strategy_args:\n    strategy_name: megatron_train\n    strategy_config: {tensor_model_parallel_size: 2, "
    "recompute_granularity: full, use_distributed_optimizer: true}\n  device_mapping: list(range(0,16))\n"
    "actor_infer:\n  model_args: {disable_gradient_checkpointing: true}\n"
    "  strategy_args: {strategy_name: vllm, strategy_config: {gpu_memory_utilization: 0.8, tensor_parallel_size: 2, "
    "block_size: 16}}\n  device_mapping: list(range(0,16))\n"
    "reference:\n  strategy_args: {strategy_config: {tensor_model_parallel_size: 4}}\n"
    "  device_mapping: list(range(0,16))\n"
    "rewards:\n  math: {world_size: 8, infer_batch_size: 4}\n";

std::string value(const ConfigSettings& config, std::string_view key) {
  return std::string{setting(config.settings, key)};
}

TEST(RunByNames, parts_of_a_file_say_who_trains_and_who_serves) {
  ASSERT_EQ(recognise_tool(kParts), Tool::kByNames);
  const auto read = read_tool_settings(Tool::kByNames, "run.yaml", kParts, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "model"), "Qwen/Qwen2.5-7B");
  EXPECT_EQ(value(*read, "gpus"), "16");
  EXPECT_EQ(value(*read, "placement"), "colocated");
  EXPECT_EQ(value(*read, "trainer_framework"), "megatron-lm");
  EXPECT_EQ(value(*read, "tensor_model_parallel_size"), "2");
  EXPECT_EQ(value(*read, "inference_tensor_parallel_size"), "2");
  EXPECT_EQ(value(*read, "engine"), "vllm");
  EXPECT_EQ(value(*read, "gpu_memory_utilization"), "0.8");
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "128");
  EXPECT_EQ(value(*read, "group_size"), "8");
  EXPECT_EQ(value(*read, "number_of_minibatches"), "4");  // 1024 samples, 1 * 32 on 8 ranks
  EXPECT_EQ(value(*read, "seq_len"), "10240");
  EXPECT_EQ(value(*read, "reference_pass"), "true");
  EXPECT_EQ(value(*read, "critic"), "");
  Settings settings = read->settings;
  put_setting(settings, "gpu", "h100-sxm-80gb");
  const auto run = read_run(std::nullopt, settings);
  EXPECT_TRUE(run) << to_string(run.error());
}

TEST(RunByNames, parts_with_devices_of_their_own_are_apart) {
  std::string text = kParts;
  const std::string first = "block_size: 16}}\n  device_mapping: list(range(0,16))";
  text.replace(text.find(first), first.size(), "block_size: 16}}\n  device_mapping: list(range(16,24))");
  const auto read = read_tool_settings(Tool::kByNames, "run.yaml", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "placement"), "disaggregated");
  EXPECT_EQ(value(*read, "trainer_num_workers"), "16");
  EXPECT_EQ(value(*read, "inference_num_workers"), "8");
  EXPECT_EQ(value(*read, "gpus"), "24");
}

TEST(RunByNames, sizes_of_both_parts_make_their_gpus) {
  const std::string text =
      "[train]\noptm_lr = 1e-6\ntrain_batch_per_replica = 1024\nfsdp_reshard_after_forward = \"never\"\n"
      "[train.train_policy]\ntype = \"grpo\"\nkl_beta = 0.0\nmini_batch = 8\n"
      "[rollout]\ngpu_memory_utilization = 0.7\nn_generation = 16\nmax_response_length = 1024\n"
      "[rollout.parallelism]\nn_init_replicas = 2\ntp_size = 2\npp_size = 1\n"
      "[policy]\nmodel_name_or_path = \"Qwen/Qwen2.5-7B-Instruct\"\nmodel_gradient_checkpointing = true\n"
      "[policy.parallelism]\nn_init_replicas = 1\ntp_size = 1\ncp_size = 1\ndp_shard_size = 4\npp_size = 1\n";
  ASSERT_EQ(recognise_tool(text), Tool::kByNames);
  const auto read = read_tool_settings(Tool::kByNames, "run.toml", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "placement"), "disaggregated");
  EXPECT_EQ(value(*read, "trainer_num_workers"), "4");
  EXPECT_EQ(value(*read, "inference_num_workers"), "4");
  EXPECT_EQ(value(*read, "inference_tensor_parallel_size"), "2");
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "64");
  EXPECT_EQ(value(*read, "reshard_after_forward"), "false");
}

TEST(RunByNames, sizes_of_the_run_may_stand_with_the_data) {
  const std::string text =
      "data: {rollout_batch_size: 32, max_prompt_length: 256}\nalgorithm: {group_size: 4, kl_beta: 0.0}\n"
      "rollout: {max_new_tokens: 512, gpu_memory_utilization: 0.6}\n"
      "actor: {model_path: Qwen/Qwen2.5-7B, lr: 1.0e-6, micro_batch_size: 1}\n";
  const auto read = read_tool_settings(Tool::kByNames, "run.yaml", text, {{"gpus", "8"}});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "32");
  EXPECT_EQ(value(*read, "prompt_max"), "256");
}

TEST(RunByNames, a_command_of_overrides_or_flags_is_read_too) {
  const std::string overrides =
      "#!/bin/bash\npython main.py grpo args.sample_per_episode=2048 args.train_global_batch_size=512 "
      "models.trainer.num_gpu=$N models.trainer.load=/w/Qwen3-8B models.trainer.lr=2e-6 models.trainer.packing=True "
      "models.trainer.max_token_in_packing=16384 models.policy.max_prompt_tokens_length=1024 "
      "models.policy.max_response_tokens_length=2048 models.policy.num_inference_per_prompt=32 "
      "models.policy.gpu_memory_utilization=0.85 models.policy.tensor_parallel_size=2 models.reward.batch_size=256\n";
  ASSERT_EQ(recognise_tool(overrides), Tool::kByNames);
  EXPECT_THAT(to_string(read_tool_settings(Tool::kByNames, "run.sh", overrides, {}).error()),
              testing::HasSubstr("number of GPUs"));
  const auto read = read_tool_settings(Tool::kByNames, "run.sh", overrides, {{"gpus", "8"}});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "model"), "/w/Qwen3-8B");
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "64");
  EXPECT_EQ(value(*read, "number_of_minibatches"), "4");
  EXPECT_EQ(value(*read, "seq_len"), "16384");  // a bin, not a micro-batch
  EXPECT_EQ(value(*read, "inference_tensor_parallel_size"), "2");

  const std::string flags =
      "CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch train_ppo.py --policy_model_path /w/Qwen2.5-7B "
      "--critic_model_path /w/Qwen2.5-7B --maxlen_prompt 1024 --maxlen_res 512 --lr 5e-7 --critic_lr 1e-6 "
      "--kl_penalty_weight 0.01 --batch_size 32 --rollout_batch_size 32 --gradient_checkpoint\n";
  ASSERT_EQ(recognise_tool(flags), Tool::kByNames);
  const auto ppo = read_tool_settings(Tool::kByNames, "run.sh", flags, {});
  ASSERT_TRUE(ppo) << to_string(ppo.error());
  EXPECT_EQ(value(*ppo, "gpus"), "4");
  EXPECT_EQ(value(*ppo, "critic"), "true");
  EXPECT_EQ(value(*ppo, "reference_pass"), "true");
  EXPECT_EQ(value(*ppo, "max_tokens"), "512");
}

TEST(RunByNames, what_decides_memory_in_other_words_is_refused) {
  const std::string text = kParts + "actor_train_extra: {expert_shard_groups: 4}\n";
  const auto read = read_tool_settings(Tool::kByNames, "run.yaml", text, {});
  ASSERT_FALSE(read);
  EXPECT_THAT(to_string(read.error()), testing::HasSubstr("expert_shard_groups"));
}

TEST(RunByNames, other_files_are_none) {
  EXPECT_FALSE(speaks_of_run("model: x\nlearning_rate: 1e-5\nmax_length: 512\nper_device_train_batch_size: 4\n"));
  EXPECT_FALSE(speaks_of_run(""));
}

TEST(ThoroughRunByNames, every_cut_of_a_file_gives_an_answer_or_an_error) {
  for (std::size_t size = 0; size <= kParts.size(); ++size) {
    const std::string text = kParts.substr(0, size);
    const auto read = read_run_by_names("run.yaml", text, {});
    EXPECT_TRUE(read || !read.error().message.empty());
  }
}

TEST(Trl, a_value_that_another_file_fills_in_is_told) {
  const std::string text = "num_generations: ${n}\nper_device_train_batch_size: ${b}\nmax_completion_length: ${c}\n";
  const auto read = read_tool_settings(Tool::kTrl, "run.yaml", text, {{"gpus", "8"}});
  ASSERT_FALSE(read);
  EXPECT_THAT(to_string(read.error()), testing::HasSubstr("filled in by another file"));
}

TEST(RunByNames, keys_of_ppos_own_loop_say_enough) {
  const std::string file =
      "model: {checkpoint: gpt2, max_length: 512}\n"
      "training: {batch_size: 16, learning_rate: 1e-5, ppo_epochs: 4, target_kl: 0.01}\n";
  ASSERT_EQ(recognise_tool(file), Tool::kByNames);
  const auto read = read_tool_settings(Tool::kByNames, "ppo.yaml", file, {{"gpus", "8"}});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "16");
  EXPECT_EQ(value(*read, "epochs"), "4");
  EXPECT_EQ(value(*read, "reference_pass"), "true");
}

}  // namespace
}  // namespace plimsoll::rl
