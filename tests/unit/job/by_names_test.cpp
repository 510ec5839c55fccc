// SPDX-License-Identifier: Apache-2.0
// Files and commands of tools that are not known: what their keys are called says what they mean.
#include <gtest/gtest.h>

#include "framework/tools/by_names.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::notes;
using test::on;
using test::read_text;
using test::text_of;

TEST(ByNames, length_batch_precision_adapter_and_gpus_are_read_in_common_words) {
  const auto job = test::read({"by-names.yaml"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.1-8b");
  EXPECT_EQ(job->batch.seq_length, 2048);  // not the 8192 of eval
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.global_batch, 64);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_EQ(job->precision.load_dtype, DType::kBf16);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_TRUE(job->adapter.quantized_base);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp2);
  EXPECT_TRUE(notes(*job, "a tool that is not known"));
}

TEST(ByNames, what_a_file_does_not_say_is_assumed_and_told) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\nloader: {seq_len: 1024, batch_size: 4}\nsolver: {lr: 1e-4, max_steps: 10}\n",
      on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->precision.load_dtype, DType::kFp32);
  EXPECT_TRUE(job->precision.autocast);
  EXPECT_TRUE(notes(*job, "loader.batch_size is taken as the sequences of one GPU"));
  EXPECT_TRUE(notes(*job, "no precision is given"));
  EXPECT_TRUE(notes(*job, "nothing says whether layers are recomputed"));
}

TEST(ByNames, strategies_of_lightning_are_deepspeeds_stages) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\nloader: {seq_len: 1024, train_batchsize: 4}\nsolver: {lr: 1e-4, max_steps: 10}\n";
  const auto job = read_text("trainer: {strategy: deepspeed_stage_3_offload}\n" + rest, on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_EQ(job->batch.micro_batch, 4);
}

TEST(ByNames, a_kind_of_model_with_adapters_is_not_the_whole_model) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\nloader: {seq_len: 1024, batch_size: 4}\nsolver: {lr: 1e-4, max_steps: 10}\n";
  EXPECT_NE(text_of(read_text("llama_type: llama_peft\n" + rest, on("a100", 8))).find("speaks of adapters"),
            std::string::npos);
  const auto job = read_text("peft_config: {peft_type: LORA, r: 16}\n" + rest, on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 16);
}

TEST(ByNames, a_job_of_a_cluster_carries_the_programs_file) {
  const auto job = read_text(
      "command: composer train.py\ncompute: {gpus: 16}\nparameters:\n  variables: {len: 4096}\n"
      "  max_seq_len: ${variables.len}\n  model: {name: hf_causal_lm, pretrained_model_name_or_path: llama3-8b}\n"
      "  optimizer: {name: decoupled_adamw, lr: 1e-5}\n  max_duration: 1ep\n  global_train_batch_size: 64\n"
      "  fsdp_config: {sharding_strategy: FULL_SHARD}\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 4096);
  EXPECT_EQ(job->cluster.gpus, 16);
}

TEST(ByNames, a_model_in_sizes_is_built_of_them) {
  const std::string_view rest = "data: {seq_len: 512, batch_size: 2}\noptim: {lr: 1e-3}\nsteps: 100\n";
  auto job = read_text(
      "model: {dim: 4096, n_layers: 32, n_heads: 32, multiple_of: 256, vocab_size: 32000}\n" + std::string(rest),
      on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.kinds.front().ffn.width, 11008);
  EXPECT_TRUE(job->model.kinds.front().ffn.gated);
  EXPECT_FALSE(notes(*job, "model.dim"));  // it is counted

  job = read_text(
      "model: {d_model: 4096, n_layers: 32, n_heads: 32, expansion_ratio: 4, vocab_size: 50368}\n" + std::string(rest),
      on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.kinds.front().ffn.width, 16384);
  EXPECT_FALSE(job->model.kinds.front().ffn.gated);

  job = read_text("model: {dim: 1024, n_layers: 8, n_heads: 8}\n" + std::string(rest), on("a100", 8));
  EXPECT_NE(text_of(job).find("vocab_size is not known"), std::string::npos) << text_of(job);

  job = read_text("model: {dim: 1024, n_layers: 8, n_heads: 8, state_dim: 64, vocab_size: 100}\n" + std::string(rest),
                  on("a100", 8));
  EXPECT_FALSE(job) << "a state-space model is no decoder of attention";
}

TEST(ByNames, a_key_that_speaks_of_memory_in_other_words_is_refused) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\ndata: {seq_len: 1024, batch_size: 4, offload_everything: true}\n"
      "solver: {lr: 1e-4, max_steps: 10}\n",
      on("a100", 8));
  EXPECT_NE(text_of(job).find("offload_everything"), std::string::npos) << text_of(job);
}

TEST(ByNames, reinforcement_of_a_tool_that_is_not_known_is_refused) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\nppo: {clip: 0.2}\nloader: {seq_len: 1024, batch_size: 4}\nsolver: {lr: 1e-4, steps: "
      "1}\n",
      on("a100", 8));
  EXPECT_NE(text_of(job).find("preference and reinforcement training"), std::string::npos) << text_of(job);
}

TEST(ByNames, a_recurrent_model_is_refused_by_what_it_is) {
  const auto job = read_text(
      "model_type: minLSTM\nmodel: {dim: 1024, n_layers: 8, n_heads: 8}\ndata: {seq_len: 512, batch_size: 2}\n"
      "optim: {lr: 1e-3}\nsteps: 100\n",
      on("a100", 8));
  EXPECT_NE(text_of(job).find("state spaces or recurrence"), std::string::npos) << text_of(job);
}

TEST(ByNames, flags_of_a_program_that_is_not_known_are_read_so) {
  const auto job = read_text(
      "torchrun --nproc_per_node 4 train.py --model_path qwen2.5-7b --batch_size 2 --seq_len 2048 "
      "--lr 1e-5 --epochs 3 --bf16 --zero_stage 2\n",
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->cluster.gpus, 4);
  EXPECT_EQ(job->sharding.zero_stage, 2);
}

TEST(ByNames, a_name_means_the_same_in_whatever_section) {
  EXPECT_EQ(meaning_of("train.loop.micro-batch-size"), "per_device_train_batch_size");
  EXPECT_EQ(meaning_of("optimizer.type"), "optim");
  EXPECT_EQ(meaning_of("gradient_checkpointing.enable"), "gradient_checkpointing");
  EXPECT_EQ(meaning_of("model.lora_config.rank"), "lora_r");
  EXPECT_EQ(meaning_of("eval_loader.max_seq_len"), "elsewhere");
  EXPECT_EQ(meaning_of("rank"), "");
}

TEST(ByNames, overrides_change_the_sizes_of_the_named_model_and_what_is_off_says_nothing) {
  const auto job = read_text(
      "config_name_or_path: meta-llama/Llama-3.2-1B\nconfig_kwargs: {num_hidden_layers: 2, hidden_size: 384, "
      "intermediate_size: 1536, num_attention_heads: 6, num_key_value_heads: 6}\nnum_train_steps: 10\n"
      "dataset: {micro_batch_size: 1, max_seq_length: 256}\nadamw_kwargs: {lr: 3e-3}\n"
      "fp8_config: {enabled: false, fp8_format: HYBRID}\n",
      on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 2);
  EXPECT_EQ(job->model.hidden, 384);
  EXPECT_EQ(job->batch.seq_length, 256);
}

}  // namespace
}  // namespace plimsoll::job
