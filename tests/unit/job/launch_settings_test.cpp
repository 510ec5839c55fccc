// SPDX-License-Identifier: Apache-2.0
// What a launch line says beside the trainer's own flags: accelerate's flags, a submitter in front, the program's name,
// files that are not at hand, and the release that old flags belong to.
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;

constexpr std::string_view kTrainer =
    " --model_name_or_path llama3.1-8b --output_dir out --per_device_train_batch_size 1 --max_seq_length 2048 "
    "--learning_rate 1e-5";

std::string with(std::string_view launcher, std::string_view program = "train.py", std::string_view more = "") {
  return std::string(launcher) + " " + std::string(program) + std::string(kTrainer) + " " + std::string(more) + "\n";
}

bool warns(const Job& job, std::string_view part) {
  return std::any_of(job.warnings.begin(), job.warnings.end(),
                     [part](const std::string& warning) { return warning.find(part) != std::string::npos; });
}

TEST(AccelerateFlags, are_read_as_the_keys_of_its_file) {
  auto job = read_text(
      with("accelerate launch --num_processes 8 --mixed_precision bf16 --use_deepspeed --zero_stage 3"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_TRUE(job->asked.bf16);
  EXPECT_EQ(job->cluster.gpus, 8);

  job = read_text(with("accelerate launch --num_processes 8 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP"),
                  on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp1);
  EXPECT_FALSE(job->sharding.reshard_after_forward);
}

TEST(FsdpWords, without_a_version_are_fsdp2_unless_only_fsdp1_has_them) {
  auto job =
      read_text(with("torchrun --nproc_per_node 8", "train.py", "--bf16 --fsdp 'full_shard auto_wrap'"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp2);
  job =
      read_text(with("torchrun --nproc_per_node 8", "train.py", "--bf16 --fsdp 'hybrid_shard auto_wrap'"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp1);
}

TEST(Submitter, the_program_behind_the_bare_dashes_is_the_one_that_runs) {
  const auto job = read_text(
      with(
          "python submit.py --cluster big --preemptible -- accelerate launch --num_processes 4 --mixed_precision bf16"),
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 4);
  EXPECT_TRUE(job->asked.bf16);
}

TEST(Launchers, may_be_programs_of_python_themselves) {
  const auto job = read_text(with("python3 ./gaudi_spawn.py --use_deepspeed --world_size 4"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 4);
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(Launchers, end_with_a_backslash_as_bash_takes_it) {
  std::string script = with("torchrun --nproc_per_node 8", "train.py", "--gradient_checkpointing True");
  script.back() = ' ';
  script += '\\';
  const auto job = read_text("#!/bin/bash\n" + script, on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
}

TEST(Launchers, stand_in_values_of_charts) {
  const auto job = read_text(
      "image:\n  repository: some/where\nresources:\n  limits:\n    nvidia.com/gpu: 8\ncommand:\n  - torchrun\n"
      "  - --nproc_per_node=8\n  - train.py \n  - --model_name_or_path\n  - llama3.1-8b\n"
      "  - --per_device_train_batch_size=2\n  - --max_seq_length\n  - \"1024\"\n  - --learning_rate=1e-5\n"
      "  - --output_dir\n  - out\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

TEST(ProgramName, says_what_loop_runs_where_no_flag_does) {
  auto job = read_text(with("torchrun --nproc_per_node 8", "scripts/dpo.py"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->reference_model);
  EXPECT_EQ(job->batch.micro_batch, 2);

  EXPECT_NE(text_of(read_text(with("torchrun --nproc_per_node 8", "grpo_fast.py"), on("h100"))).find("reinforcement"),
            std::string::npos);
  job = read_text(with("torchrun --nproc_per_node 8", "reward_modeling.py"), on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.head, model::Head::kScores);
  job = read_text(with("torchrun --nproc_per_node 8", "vl_chat_finetune.py"), on("h100"));
  EXPECT_TRUE(job) << "a chat model is trained here: " << text_of(job);
}

TEST(UnknownValues, matter_only_for_flags_that_do) {
  const auto job = read_text(
      with("torchrun --nproc_per_node 8", "train_mem.py", "--version $PROMPT_VERSION --data_path $DATA"), on("h100"));
  EXPECT_TRUE(job) << text_of(job);
}

TEST(MissingDeepSpeedFile, gives_its_stage_by_its_name_or_asks_for_it) {
  auto job = read_text(with("deepspeed --num_gpus 8", "train.py", "--deepspeed configs/ds_zero_stage3_config.json"),
                       on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_TRUE(warns(*job, "taken from its name"));

  const std::string unnamed = with("deepspeed --num_gpus 8", "train.py", "--deepspeed configs/ds_config.json");
  EXPECT_NE(text_of(read_text(unnamed, on("h100"))).find("no such file"), std::string::npos);
  job = read_text(unnamed, on("h100", std::nullopt, {{"zero_stage", "2"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.zero_stage, 2);
}

TEST(ProgramName, flags_with_sections_and_a_command_in_a_here_document_are_read) {
  const auto job = read_text(
      "read -r -d '' command <<EOF\nopenrlhf.cli.train_dpo \\\n  --train.batch_size 64 --train.micro_batch_size 1 \\\n"
      "  --model.model_name_or_path llama3.1-8b --data.max_len 4096 --ds.zero_stage 3 --ds.adam_offload --adam.lr "
      "1e-6\n"
      "EOF\ndeepspeed --num_gpus 8 --module $command\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 2);  // chosen and rejected
  EXPECT_EQ(job->batch.global_batch, 128);
  EXPECT_EQ(job->batch.seq_length, 4096);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_TRUE(job->reference_model);
}

TEST(MsSwift, preference_training_under_megatron_holds_a_reference_and_pairs) {
  const std::string flags =
      "NPROC_PER_NODE=8 megatron rlhf --rlhf_type dpo --model Qwen/Qwen3-4B --tensor_model_parallel_size 2 "
      "--micro_batch_size 1 --global_batch_size 16 --max_length 4096 --sequence_parallel true ";
  auto job = read_text(flags + "--tuner_type full\n", on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->reference_model);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.global_batch, 32);
  EXPECT_TRUE(job->is_megatron());
}

TEST(FakeQuantisation, is_answered_where_layers_are_recomputed) {
  const std::string base =
      "base_model: llama3.1-8b\nsequence_len: 1024\nmicro_batch_size: 1\nbf16: true\nqat: {group_size: 32}\n";
  const auto job = read_text(base + "gradient_checkpointing: true\n", on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(warns(*job, "fake-quantised copies"));
  EXPECT_NE(text_of(read_text(base, on("h100", 1))).find("fake-quantised copy of every weight"), std::string::npos);
}

TEST(Adapters, a_target_with_a_path_is_its_last_word) {
  const auto job = read_text(
      "base_model: llama3.1-8b\nsequence_len: 1024\nmicro_batch_size: 1\nadapter: lora\nlora_r: 8\n"
      "lora_target_modules: [self_attn.q_proj, self_attn.v_proj]\n",
      on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
}

TEST(Omega, relative_references_start_at_their_own_table) {
  const auto job = read_text(
      "sft: {max_num_steps: 10}\npolicy:\n  model_name: llama3.1-8b\n  train_global_batch_size: 16\n"
      "  train_micro_batch_size: 2\n  max_total_sequence_length: ${mul:${.train_micro_batch_size}, 1024}\n"
      "  precision: bfloat16\n  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: "
      "${..train_micro_batch_size}\n"
      "    context_parallel_size: 1\ncluster: {gpus_per_node: 8, num_nodes: 1}\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->parallel.tensor, 2);
}

TEST(FrozenParts, a_model_without_a_tower_has_nothing_left_to_train) {
  const auto job = read_text(
      with("torchrun --nproc_per_node 8", "vl_finetune.py", "--freeze_llm True --freeze_mlp False"), on("h100"));
  EXPECT_NE(text_of(job).find("nothing is trained"), std::string::npos) << text_of(job);
}

constexpr std::string_view kMegatron =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 8 --fp16 "
    "--vocab-size 50257 ";

TEST(OldMegatron, flags_of_old_releases_mean_its_own_layers) {
  auto job = read_text(std::string(kMegatron) + "--checkpoint-activations --DDP-impl local\n", on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->kernels.implementation, Implementation::kLocal);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kUnfused);

  job = read_text(std::string(kMegatron) + "--data-impl mmap --use-flash-attn\n", on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->kernels.implementation, Implementation::kLocal);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kFlash);

  job = read_text(std::string(kMegatron) + "\n", on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->kernels.implementation, Implementation::kTransformerEngine);

  job = read_text(std::string(kMegatron) + "--attention-head-type multiquery\n", on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.kinds.front().attention.kv_heads, 1);
}

constexpr std::string_view kNeox =
    "{pipe_parallel_size: 1, model_parallel_size: 2, num_layers: 12, hidden_size: 768, num_attention_heads: 12, "
    "seq_length: 2048, max_position_embeddings: 2048, pos_emb: rotary, train_micro_batch_size_per_gpu: 4, "
    "fp16: {enabled: true}, ";

TEST(GptNeox, attention_is_flash_where_every_layer_has_it) {
  auto job = read_text(std::string(kNeox) + "attention_config: [[[flash], 12]]}", on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kFlash);
  job = read_text(std::string(kNeox) + "attention_config: [[[flash, global], 6]]}", on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kUnfused);
}

TEST(GptNeox, preference_training_holds_a_reference_and_two_answers) {
  auto job = read_text(std::string(kNeox) + "train_impl: dpo}", on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->reference_model);
  EXPECT_EQ(job->batch.micro_batch, 8);
  job = read_text(std::string(kNeox) + "train_impl: reinforce}", on("a100", 8));
  EXPECT_NE(text_of(job).find("train_impl"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::job
