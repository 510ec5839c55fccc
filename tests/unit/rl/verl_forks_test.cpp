// SPDX-License-Identifier: Apache-2.0
// Forks of verl: EasyR1, which has names of its own, and those that repeat prompts themselves.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rl/frameworks/config.h"
#include "rl/frameworks/settings.h"
#include "rl/trainer.h"

namespace plimsoll::rl {
namespace {

const std::string kFile =
    "data:\n  max_prompt_length: 1024\n  max_response_length: 3072\n  rollout_batch_size: 512\n"
    "algorithm:\n  adv_estimator: grpo\n  disable_kl: true\n"
    "worker:\n  actor:\n    global_batch_size: 128\n    micro_batch_size_per_device_for_update: 2\n"
    "    padding_free: true\n    dynamic_batching: true\n    ulysses_size: 1\n"
    "    model: {model_path: Qwen/Qwen2.5-7B-Instruct, enable_gradient_checkpointing: true, lora: {rank: 0}}\n"
    "    optim: {lr: 1e-6, strategy: adamw}\n    fsdp: {enable_full_shard: true, enable_rank0_init: true}\n"
    "    offload: {offload_params: true, offload_optimizer: true}\n"
    "  rollout: {n: 5, gpu_memory_utilization: 0.6, tensor_parallel_size: 2, enforce_eager: false}\n"
    "  ref: {fsdp: {enable_cpu_offload: true}, offload: {offload_params: false}}\n"
    "trainer: {nnodes: 1, n_gpus_per_node: 8}\n";

std::string value(const ConfigSettings& config, std::string_view key) {
  return std::string{setting(config.settings, key)};
}

TEST(EasyR1, its_file_is_read_as_verls) {
  ASSERT_EQ(recognise_config(kFile, "config.yaml"), Framework::kVerl);
  const auto read = read_config_settings(Framework::kVerl, "config.yaml", kFile, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "model"), "Qwen/Qwen2.5-7B-Instruct");
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "512");
  EXPECT_EQ(value(*read, "number_of_minibatches"), "4");
  EXPECT_EQ(value(*read, "group_size"), "5");
  EXPECT_EQ(value(*read, "seq_len"), "8192");  // two of the longest samples
  EXPECT_EQ(value(*read, "inference_tensor_parallel_size"), "2");
  EXPECT_EQ(value(*read, "offload_trainer"), "true");
  EXPECT_EQ(value(*read, "reference_pass"), "false");
  EXPECT_EQ(value(*read, "gpus"), "8");
}

// Its first releases named the two switches the other way round.
TEST(EasyR1, older_words_for_what_leaves_the_gpu_are_read) {
  std::string older = kFile;
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"offload_params", "param_offload"},
                                 {"offload_optimizer", "optimizer_offload"}})
    for (std::size_t at = older.find(from); at != std::string::npos; at = older.find(from, at + to.size()))
      older.replace(at, from.size(), to);
  const auto read = read_config_settings(Framework::kVerl, "config.yaml", older, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "offload_trainer"), "true");
}

TEST(EasyR1, words_of_the_command_lie_over_the_file_that_it_names) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "easyr1";
  fs::create_directories(folder);
  std::ofstream(folder / "config.yaml") << kFile;
  const std::string script =
      "MODEL=Qwen/Qwen2.5-3B-Instruct\npython3 -m verl.trainer.main config=config.yaml "
      "worker.actor.model.model_path=${MODEL} worker.actor.model.lora.rank=64 trainer.n_gpus_per_node=2\n";
  ASSERT_EQ(recognise_config(script, (folder / "run.sh").string()), Framework::kVerl);
  const auto read = read_config_settings(Framework::kVerl, (folder / "run.sh").string(), script, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "model"), "Qwen/Qwen2.5-3B-Instruct");
  EXPECT_EQ(value(*read, "lora_rank"), "64");
  EXPECT_EQ(value(*read, "gpus"), "2");
  EXPECT_EQ(value(*read, "group_size"), "5");
}

// Forks of verl repeat prompts before they ask the servers.
TEST(Verl, prompts_that_a_fork_repeats_are_samples) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=512 "
      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.n_agent=5 trainer.n_gpus_per_node=8\n";
  const auto read = read_config_settings(Framework::kVerl, "run.sh", script, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "group_size"), "5");
  EXPECT_EQ(value(*read, "critic"), "false");
}

// Megatron's trainers have their adapters in a table of their own.
TEST(Verl, adapters_of_the_models_own_table_are_read) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer data.train_batch_size=512 "
      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=8 actor_rollout_ref.model.lora.alpha=64 "
      "actor_rollout_ref.model.lora.dropout=0.1 actor_rollout_ref.model.lora.merge=True ";
  const auto read = read_config_settings(Framework::kVerl, "run.sh",
                                         script +
                                             "actor_rollout_ref.model.lora.rank=32 "
                                             "actor_rollout_ref.model.lora.type=dora "
                                             "actor_rollout_ref.model.lora.target_modules=[linear_qkv,linear_fc1]\n",
                                         {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "peft"), "dora");
  EXPECT_EQ(value(*read, "lora_rank"), "32");
  EXPECT_EQ(value(*read, "lora_dropout"), "0.1");
  // A rank that nobody sets is not "no adapters".
  EXPECT_FALSE(
      read_config_settings(Framework::kVerl, "run.sh", script + "actor_rollout_ref.model.lora.rank=$RANK\n", {}));
}

TEST(Verl, a_critic_is_trained_unless_the_advantages_are_said) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo data.train_batch_size=512 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
      "critic.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=8\n";
  const auto read = read_config_settings(Framework::kVerl, "run.sh", script, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "critic"), "true");
}

// Ranks that share a sequence share the shards: all eight hold an eighth, whoever is whose.
TEST(Verl, ulysses_ranks_share_the_states) {
  const auto states = [](const char* ulysses) {
    const std::string script =
        std::string(
            "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=512 "
            "data.max_prompt_length=1024 data.max_response_length=1024 "
            "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.use_dynamic_bsz=true "
            "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096 trainer.n_gpus_per_node=8 "
            "trainer.nnodes=1 actor_rollout_ref.actor.ulysses_sequence_parallel_size=") +
        ulysses + "\n";
    const auto read = read_config_settings(Framework::kVerl, "run.sh", script, {});
    EXPECT_TRUE(read) << to_string(read.error());
    Settings settings = read->settings;
    put_setting(settings, "gpu", "h100-sxm-80gb");
    const auto run = read_run(std::nullopt, settings);
    EXPECT_TRUE(run) << to_string(run.error());
    const auto memory = trainer_memory(*run, run->trainer);
    EXPECT_TRUE(memory);
    return memory ? memory->optimizer : 0;
  };
  EXPECT_GT(states("1"), 0);
  EXPECT_EQ(states("1"), states("8"));
}

TEST(Verl, adapters_in_a_table_of_their_own_and_what_leaves_the_gpu_are_read) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.rollout.n=4 trainer.n_gpus_per_node=8 "
      "actor_rollout_ref.model.lora.rank=32 actor_rollout_ref.model.enable_activation_offload=True "
      "actor_rollout_ref.actor.fsdp_config.offload_policy=True actor_rollout_ref.rollout.quantization=fp8 "
      "actor_rollout_ref.rollout.dtype=float16\n";
  const auto read = read_config_settings(Framework::kVerl, "run.sh", script, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "peft"), "lora");
  EXPECT_EQ(value(*read, "lora_rank"), "32");
  EXPECT_EQ(value(*read, "offload_checkpointed_inputs"), "true");
  EXPECT_EQ(value(*read, "fsdp_cpu_offload"), "true");
  EXPECT_EQ(value(*read, "inference_weights"), "fp8");
}

}  // namespace
}  // namespace plimsoll::rl
