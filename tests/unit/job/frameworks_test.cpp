// SPDX-License-Identifier: Apache-2.0
// Files of RL frameworks' supervised trainers, recipes and registries, and what a run leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/megatron_bridge/bridge.h"
#include "job/readers/omega.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::data_file;
using test::data_path;
using test::on;
using test::read;
using testing::HasSubstr;

InputFile script(const std::string& text) { return InputFile{data_path("run.sh"), text}; }

Result<Job> read_script(const std::string& text, std::optional<std::int64_t> gpus = std::nullopt) {
  return read_job({script(text)}, on("h100-sxm-80gb", gpus));
}

TEST(NemoRl, megatron_trainer_with_interpolated_sizes) {
  const auto job = read({"nemo-rl.yaml"}, on("h100-sxm-80gb"));
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->framework, Framework::kMegatronLm);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.pipeline, 2);
  EXPECT_EQ(job->data_parallel, 2);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.seq_length, 4096);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(job->optimizer.precision_aware);
  EXPECT_FALSE(job->optimizer.grad_reduce_in_fp32);
}

TEST(NemoRl, files_of_defaults_lie_below_and_preference_pairs_are_two_sequences) {
  const auto job = read({"nemo-rl-dpo.yaml"}, on("h100-sxm-80gb"));
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(*job->batch.global_batch, 128);
  EXPECT_EQ(job->parallel.tensor, 2);
}

TEST(NemoRl, a_script_lays_its_words_over_the_file_that_it_names) {
  const auto job = read_script(
      "#!/bin/bash\nHERE=$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd)\n"
      "uv run examples/run_sft.py --config $HERE/nemo-rl.yaml policy.train_micro_batch_size=1 "
      "policy.megatron_cfg.tensor_model_parallel_size=4 cluster.num_nodes=2 $@ 2>&1 | tee log\n");
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->batch.micro_batch, 1);
  EXPECT_EQ(job->parallel.tensor, 4);
  EXPECT_EQ(job->cluster.gpus, 16);
}

TEST(SupervisedTrainers, prime_rl_and_verl) {
  const auto prime = read({"prime-rl-sft.toml"}, on("h100-sxm-80gb"));
  ASSERT_TRUE(prime) << to_string(prime.error());
  EXPECT_EQ(prime->adapter.rank, 16);
  EXPECT_EQ(prime->cluster.gpus, 4);
  EXPECT_EQ(prime->batch.micro_batch, 2);
  EXPECT_EQ(prime->sharding.stored, DType::kBf16);
  const auto verl = read({"verl-sft.yaml"}, on("h100-sxm-80gb"));
  ASSERT_TRUE(verl) << to_string(verl.error());
  EXPECT_EQ(verl->adapter.rank, 32);
  EXPECT_EQ(verl->parallel.context, 2);
  EXPECT_EQ(verl->batch.seq_length, 2048);
  EXPECT_EQ(verl->sharding.stored, DType::kFp32);
}

TEST(TorchtitanRegistry, config_chooses_and_the_error_lists) {
  const InputFile file = data_file("llama3/config_registry.py");
  ReadOptions options = on("h100-sxm-80gb", 8);
  const auto open = read_job({file}, options);
  ASSERT_FALSE(open);
  EXPECT_THAT(to_string(open.error()), HasSubstr("llama3_8b, llama3_8b_long"));
  options.config = "llama3_8b";
  const auto job = read_job({file}, options);
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->batch.seq_length, 8192);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->kernels.loss, LossKind::kChunked);
  options.config = "llama3_8b_long";
  const auto longer = read_job({file}, options);
  ASSERT_TRUE(longer) << to_string(longer.error());
  EXPECT_EQ(longer->batch.seq_length, 16384);
  EXPECT_EQ(longer->parallel.context, 2);
}

TEST(Records, a_run_can_be_read_from_what_it_left) {
  const auto printed = read({"megatron.log"}, on("h100-sxm-80gb"));
  ASSERT_TRUE(printed) << to_string(printed.error());
  EXPECT_EQ(printed->cluster.gpus, 16);
  EXPECT_EQ(printed->parallel.tensor, 2);
  EXPECT_EQ(printed->batch.micro_batch, 2);
  EXPECT_EQ(printed->model.layers.size(), 32U);
  const auto recorded = read({"wandb.yaml"}, on("h100-sxm-80gb", 8));
  ASSERT_TRUE(recorded) << to_string(recorded.error());
  EXPECT_EQ(recorded->batch.micro_batch, 4);
  EXPECT_EQ(recorded->batch.seq_length, 2048);
}

TEST(BridgeRecipe, a_command_lays_its_words_over_the_recipe) {
  const auto job = read_script(
      "CONFIGS=(\"2,1\" \"4,2\")\nfor C in \"${CONFIGS[@]}\"; do\nIFS=',' read -r TP PP <<< \"$C\"\n"
      "CMD=\"python run_recipe.py --recipe llama3_8b_pretrain_config model.tensor_model_parallel_size=$TP "
      "model.pipeline_model_parallel_size=$PP train.micro_batch_size=2\"\nsrun bash -c \"$CMD\"\nbreak\ndone\n",
      8);
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
  EXPECT_EQ(job->model.name, "llama3-8b");
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.context, 2);  // the recipe's own
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(*job->batch.global_batch, 512);
}

TEST(BridgeRecipe, either_switch_of_the_distributed_optimizer_is_enough) {
  // cfg.ddp says no, the optimizer of every fine-tuning recipe yes: Bridge turns it on in both.
  const auto tuned = read_script("python run_recipe.py --recipe llama3_70b_sft_32gpu_h100_bf16_config\n", 64);
  ASSERT_TRUE(tuned) << to_string(tuned.error());
  EXPECT_TRUE(tuned->optimizer.distributed);
  const auto adapted = read_script("python run_recipe.py --recipe llama3_70b_peft_8gpu_h100_bf16_config\n", 8);
  ASSERT_TRUE(adapted) << to_string(adapted.error());
  EXPECT_FALSE(adapted->optimizer.distributed);  // it says no in both
}

TEST(BridgeRecipe, a_named_precision_keeps_its_name_under_its_fields) {
  const auto job = read_script("python run_recipe.py --recipe llama3_8b_pretrain_2gpu_h100_fp8cs_config\n", 8);
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->precision.fp8, Fp8Recipe::kTensorwise);
  const auto mixed = read_script("python run_recipe.py --recipe qwen3_8b_sft_4gpu_h100_bf16_config\n", 8);
  ASSERT_TRUE(mixed) << to_string(mixed.error());
  EXPECT_EQ(mixed->precision.compute,
            read_script("python run_recipe.py --recipe qwen3_4b_sft_2gpu_h100_bf16_config\n", 8)->precision.compute);
}

TEST(BridgeRecipe, an_unknown_one_suggests_what_is_near) {
  const auto job = read_script("python run_recipe.py --recipe llama3_8b_pretrian_config train.micro_batch_size=2\n", 8);
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().hint, HasSubstr("llama3_8b_pretrain_config"));
}

TEST(Preference, pairs_double_the_batch_and_a_full_model_has_a_reference) {
  const std::string base =
      "model_name_or_path: meta-llama/Llama-3.1-8B\nmax_length: 1024\nbf16: true\noutput_dir: out\n"
      "per_device_train_batch_size: 2\nbeta: 0.1\n";
  const auto full = read_job({InputFile{"dpo.yaml", base}}, on("h100-sxm-80gb", 8));
  ASSERT_TRUE(full) << to_string(full.error());
  EXPECT_EQ(full->batch.micro_batch, 4);
  EXPECT_TRUE(full->reference_model);
  const auto precomputed =
      read_job({InputFile{"dpo.yaml", base + "precompute_ref_log_probs: true\n"}}, on("h100-sxm-80gb", 8));
  ASSERT_TRUE(precomputed) << to_string(precomputed.error());
  EXPECT_FALSE(precomputed->reference_model);
}

TEST(Preference, group_rollouts_are_not_preference_training) {
  const auto job = read_job({InputFile{"grpo.yaml",
                                       "model_name_or_path: meta-llama/Llama-3.1-8B\nbeta: 0.1\n"
                                       "num_generations: 8\noutput_dir: out\n"}},
                            on("h100-sxm-80gb", 8));
  EXPECT_FALSE(job);
}

TEST(Scripts, a_guard_that_leaves_is_passed) {
  const auto job = read_script(
      "if [ -z \"$IMAGE\" ]; then\n  echo set IMAGE\n  exit 1\nfi\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 "
      "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --vocab-size 1000 "
      "--bf16\n");
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->cluster.gpus, 8);
}

TEST(Omega, interpolation_fills_in_text_arithmetic_and_defaults_of_the_environment) {
  const auto root = parse_omega(
      "a: 4\nb: ${a}\nc: ${mul:${a}, ${b}}\nd: run-${a}-${b}\ne: ${oc.env:NOWHERE,7}\nf: ${g}\ng: ${f}\nh: "
      "${nothing}\n",
      "x.yaml");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("b")->integer, 4);
  EXPECT_EQ(root->find("c")->integer, 16);
  EXPECT_EQ(root->find("d")->text, "run-4-4");
  EXPECT_EQ(root->find("e")->integer, 7);
  EXPECT_EQ(root->find("h")->text, "${nothing}");
}

TEST(Omega, words_of_a_command_line) {
  EXPECT_EQ(split_override("+a.b=1").path, "a.b");
  EXPECT_EQ(split_override("a.b=c=d").value, "c=d");
  EXPECT_TRUE(split_override("~a.b").deletes);
  EXPECT_TRUE(split_override("--a=b").path.empty());
  EXPECT_TRUE(split_override("plain").path.empty());
}

}  // namespace
}  // namespace plimsoll::job
