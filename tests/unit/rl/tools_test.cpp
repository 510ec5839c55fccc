// SPDX-License-Identifier: Apache-2.0
// Tools that are read and not written: slime, AReaL, open-instruct, GRPO of TRL.
#include "rl/frameworks/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rl/frameworks/settings.h"

namespace plimsoll::rl {
namespace {

const std::string kSlime =
    "NUM_GPUS=8\nROLLOUT_ARGS=(\n  --rollout-batch-size 32\n  --n-samples-per-prompt 8\n  --rollout-max-response-len "
    "8192\n"
    "  --global-batch-size 128\n)\nray job submit --address x -- python3 train.py --actor-num-nodes 2 "
    "--actor-num-gpus-per-node ${NUM_GPUS} --colocate --hf-checkpoint /models/Qwen3-4B ${ROLLOUT_ARGS[@]} "
    "--tensor-model-parallel-size 2 --context-parallel-size 2 --recompute-granularity full --recompute-method uniform "
    "--recompute-num-layers 1 --use-dynamic-batch-size --max-tokens-per-gpu 9216 --rollout-num-gpus-per-engine 2 "
    "--use-kl-loss\n";

const std::string kAreal =
    "experiment_name: math\nallocation_mode: sglang.d4p1t2+d2p1t4\ngconfig:\n  n_samples: 4\n  max_new_tokens: 1024\n"
    "actor:\n  path: Qwen/Qwen2.5-1.5B-Instruct\n  mb_spec:\n    max_tokens_per_mb: 10240\n"
    "train_dataset:\n  batch_size: 256\nrollout:\n  max_head_offpolicyness: 2\n";

std::string value(const ConfigSettings& config, std::string_view key) {
  return std::string{setting(config.settings, key)};
}

TEST(Slime, flags_become_a_run) {
  ASSERT_EQ(recognise_tool(kSlime), Tool::kSlime);
  const auto read = read_tool_settings(Tool::kSlime, "run.sh", kSlime, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "model"), "/models/Qwen3-4B");
  EXPECT_EQ(value(*read, "gpus"), "16");
  EXPECT_EQ(value(*read, "placement"), "colocated");
  EXPECT_EQ(value(*read, "number_of_minibatches"), "2");
  EXPECT_EQ(value(*read, "seq_len"), "18432");  // on each of two context-parallel ranks
  EXPECT_EQ(value(*read, "tensor_model_parallel_size"), "2");
  EXPECT_EQ(value(*read, "reference_pass"), "true");
  Settings settings = read->settings;
  put_setting(settings, "gpu", "h100-sxm-80gb");
  const auto run = read_run(std::nullopt, settings);
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_EQ(run->trainer.parallel.tensor, 2);
  EXPECT_EQ(run->trainer.parallel.context, 2);
}

TEST(Areal, the_allocation_says_both_pools) {
  ASSERT_EQ(recognise_tool(kAreal), Tool::kAreal);
  const auto read = read_tool_settings(Tool::kAreal, "run.yaml", kAreal, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "inference_num_workers"), "8");
  EXPECT_EQ(value(*read, "trainer_num_workers"), "8");
  EXPECT_EQ(value(*read, "inference_tensor_parallel_size"), "2");
  EXPECT_EQ(value(*read, "tensor_model_parallel_size"), "4");
  EXPECT_EQ(value(*read, "mode"), "async");
  EXPECT_EQ(value(*read, "max_async_rollout"), "2");
}

TEST(Areal, an_allocation_that_says_nothing_is_an_error) {
  const auto read = read_tool_settings(Tool::kAreal, "run.yaml", "allocation_mode: d4\ngconfig:\n  n_samples: 2\n", {});
  ASSERT_FALSE(read);
  EXPECT_THAT(to_string(read.error()), testing::HasSubstr("sglang.d4p1t1+d4p1t1"));
}

TEST(Areal, a_backend_of_each_side_says_the_same) {
  const std::string text =
      "experiment_name: math\ntrial_name: one\nrollout:\n  backend: \"sglang:d8t4\"\ngconfig:\n  n_samples: 4\n"
      "actor:\n  path: qwen3-30b-a3b\n  backend: \"megatron:(attn:d4p4t2|ffn:d2p4e4)\"\n";
  ASSERT_EQ(recognise_tool(text), Tool::kAreal);
  const auto read = read_tool_settings(Tool::kAreal, "run.yaml", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "inference_num_workers"), "32");
  EXPECT_EQ(value(*read, "trainer_num_workers"), "32");
  EXPECT_EQ(value(*read, "pipeline_model_parallel_size"), "4");
  EXPECT_EQ(value(*read, "expert_model_parallel_size"), "4");
  EXPECT_EQ(value(*read, "sequence_parallel"), "true");
  EXPECT_EQ(value(*read, "trainer_framework"), "megatron-lm");
}

const std::string kOpenInstruct =
    "python mason.py --num_nodes 3 --gpus 8 -- source setup.sh \\&\\& uv run open_instruct/grpo_fast.py --beta 0.0 "
    "--async_steps 4 --num_samples_per_prompt_rollout 8 --num_unique_prompts_rollout 32 --response_length 16384 "
    "--max_prompt_token_length 2048 --pack_length 18432 --model_name_or_path qwen2.5-7b --deepspeed_stage 3 "
    "--num_learners_per_node 8 8 --vllm_num_engines 4 --vllm_tensor_parallel_size 2\n";

TEST(OpenInstruct, learners_and_engines_have_gpus_of_their_own) {
  ASSERT_EQ(recognise_tool(kOpenInstruct), Tool::kOpenInstruct);
  const auto read = read_tool_settings(Tool::kOpenInstruct, "run.sh", kOpenInstruct, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "trainer_num_workers"), "16");
  EXPECT_EQ(value(*read, "inference_num_workers"), "8");
  EXPECT_EQ(value(*read, "gpus"), "24");
  EXPECT_EQ(value(*read, "seq_len"), "18432");
  EXPECT_EQ(value(*read, "zero_stage"), "3");
  EXPECT_EQ(value(*read, "mode"), "async");
  EXPECT_EQ(value(*read, "reference_pass"), "false");
}

const std::string kTrinity =
    "mode: both\nmodel:\n  model_path: Qwen/Qwen2.5-1.5B-Instruct\n  max_prompt_tokens: 256\n"
    "  max_response_tokens: 1024\nalgorithm:\n  algorithm_type: grpo\n  repeat_times: 8\n  optimizer: {lr: 1e-6}\n"
    "cluster:\n  node_num: 2\n  gpu_per_node: 8\nbuffer:\n  batch_size: 96\n"
    "explorer:\n  rollout_model:\n    engine_num: 4\n    tensor_parallel_size: 2\n"
    "trainer:\n  max_token_len_per_gpu: 6400\nsynchronizer:\n  sync_interval: 3\n";

TEST(Trinity, the_trainer_has_the_gpus_that_engines_leave) {
  ASSERT_EQ(recognise_tool(kTrinity), Tool::kTrinity);
  const auto read = read_tool_settings(Tool::kTrinity, "run.yaml", kTrinity, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "inference_num_workers"), "8");
  EXPECT_EQ(value(*read, "trainer_num_workers"), "8");
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "96");
  EXPECT_EQ(value(*read, "group_size"), "8");
  EXPECT_EQ(value(*read, "seq_len"), "6400");
  EXPECT_EQ(value(*read, "max_async_rollout"), "2");
  EXPECT_EQ(value(*read, "reference_pass"), "true");
}

TEST(Trl, a_script_says_its_gpus) {
  const std::string text =
      "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model qwen2.5-7b --num_generations 8 "
      "--per_device_train_batch_size 4 --max_completion_length 1024\n";
  const auto read = read_tool_settings(Tool::kTrl, "run.sh", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "gpus"), "4");
}

TEST(Trl, prompts_follow_from_batch_and_gpus) {
  const std::string text =
      "model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct\nnum_generations: 16\nmax_prompt_length: 512\n"
      "max_completion_length: 1024\nper_device_train_batch_size: 16\ngradient_accumulation_steps: 4\nuse_vllm: true\n";
  ASSERT_EQ(recognise_tool(text), Tool::kTrl);
  EXPECT_FALSE(read_tool_settings(Tool::kTrl, "run.yaml", text, {}));
  const auto read = read_tool_settings(Tool::kTrl, "run.yaml", text, {{"gpus", "8"}});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "prompts_batch_size_for_trainer"), "32");
  EXPECT_EQ(value(*read, "seq_len"), "24576");
}

TEST(Tools, a_text_cut_anywhere_is_read_or_refused) {
  for (const std::string* text : {&kSlime, &kAreal, &kOpenInstruct, &kTrinity})
    for (std::size_t size = 0; size < text->size(); ++size) {
      const std::string cut = text->substr(0, size);
      const auto tool = recognise_tool(cut);
      if (!tool) continue;
      const auto read = read_tool_settings(*tool, "run", cut, {{"gpus", "8"}});
      EXPECT_TRUE(read || !read.error().message.empty());
    }
}

constexpr const char* kSkyRl = R"(#!/bin/bash
NUM_GPUS=8
uv run --isolated --extra megatron -m skyrl.train.entrypoints.main_base \
  trainer.policy.model.path="Qwen/Qwen3-30B-A3B" trainer.strategy=megatron trainer.placement.colocate_all=true \
  trainer.placement.policy_num_nodes=2 trainer.placement.policy_num_gpus_per_node=$NUM_GPUS \
  generator.inference_engine.num_engines=2 generator.inference_engine.tensor_parallel_size=8 \
  trainer.policy.megatron_config.tensor_model_parallel_size=4 trainer.policy.megatron_config.expert_model_parallel_size=8 \
  trainer.policy.megatron_config.expert_tensor_parallel_size=1 trainer.train_batch_size=512 \
  trainer.policy_mini_batch_size=32 trainer.micro_train_batch_size_per_gpu=2 trainer.max_prompt_length=2048 \
  generator.sampling_params.max_generate_length=8192 generator.n_samples_per_prompt=16 \
  trainer.algorithm.use_kl_loss=false
)";

TEST(SkyRl, words_of_the_command_become_a_run) {
  ASSERT_EQ(recognise_tool(kSkyRl), Tool::kSkyRl);
  const auto read = read_tool_settings(Tool::kSkyRl, "run.sh", kSkyRl, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(value(*read, "gpus"), "16");
  EXPECT_EQ(value(*read, "number_of_minibatches"), "16");
  EXPECT_EQ(value(*read, "seq_len"), "20480");  // two sequences of 2048 + 8192 without padding
  EXPECT_EQ(value(*read, "expert_model_parallel_size"), "8");
  EXPECT_EQ(value(*read, "recompute_granularity"), "full");  // its default
  EXPECT_EQ(value(*read, "reference_pass"), "false");
  Settings settings = read->settings;
  put_setting(settings, "gpu", "h100-sxm-80gb");
  const auto run = read_run(std::nullopt, settings);
  ASSERT_TRUE(run) << to_string(run.error());
}

TEST(SkyRl, what_speaks_of_memory_and_is_not_read_is_refused) {
  const std::string text =
      std::string(kSkyRl).substr(0, std::string(kSkyRl).rfind('\n')) + " trainer.policy.odd_offload_target=4\n";
  const auto read = read_tool_settings(Tool::kSkyRl, "run.sh", text, {});
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("odd_offload_target"), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace plimsoll::rl
