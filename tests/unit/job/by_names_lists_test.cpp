// SPDX-License-Identifier: Apache-2.0
// Files of tools that are not known: sizes in lists of tables, what a table around a word changes, what is off.
#include <gtest/gtest.h>

#include "framework/tools/by_names.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;

// A decoder whose layers are listed one by one, beside a data set that says the length.
std::string listed(const std::string& layers) {
  return "corpora:\n  - {kind: packed, args: {sequence_length: 2048}}\n"
         "model_args:\n  layout: {model_type: gpt_plain, vocab_size: 32000, hidden_size: 1024, num_layers: 2}\n"
         "  blocks:\n" +
         layers +
         "train: {micro_batch_size: 4, num_training_steps: 10}\n"
         "optimizer_args: {class_name: FancyAdamW, class_args: {lr: 1e-4}}\n"
         "mixed_precision_args: {dtype: bf16}\n";
}

TEST(ByNames, layers_that_are_listed_alike_make_the_model) {
  const auto job = read_text(listed("    - {num_attention_heads: 16, intermediate_size: 4096}\n"
                                    "    - {num_attention_heads: 16, intermediate_size: 4096}\n"),
                             on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->model.hidden, 1024);
  // bf16 is what is computed in; weights stay in fp32.
  EXPECT_TRUE(job->precision.autocast);
}

TEST(ByNames, layers_that_differ_are_not_taken_for_one_another) {
  const auto job = read_text(listed("    - {num_attention_heads: 16, intermediate_size: 4096}\n"
                                    "    - {num_attention_heads: 8, intermediate_size: 4096}\n"),
                             on("a100", 8));
  EXPECT_FALSE(job);
}

const std::string kRest =
    "model: {name: qwen2.5-7b}\nloader: {seq_len: 1024, batch_size: 4}\nsolver: {lr: 1e-4, max_steps: 10}\n";

TEST(ByNames, stages_copies_and_shards_are_counted) {
  const auto sharded = read_text(
      "distributed: {stage: 3, data_parallel_replication_world_size: 2, data_parallel_sharding_world_size: 4}\n" +
          kRest,
      on("a100"));
  ASSERT_TRUE(sharded) << text_of(sharded);
  EXPECT_EQ(sharded->cluster.gpus, 8);
  EXPECT_EQ(sharded->sharding.kind, ShardingKind::kFsdp2);
  const auto whole = read_text("distributed: {stage: 0}\n" + kRest, on("a100", 8));
  ASSERT_TRUE(whole) << text_of(whole);
  EXPECT_NE(whole->sharding.kind, ShardingKind::kFsdp2);
}

TEST(ByNames, activations_on_the_host_and_kernels_by_their_library) {
  const auto job = read_text(
      "activation_checkpoint_cpu_offload: true\nmodel: {type: liger, name_or_path: Qwen/Qwen2.5-7B}\n"
      "loader: {seq_len: 1024, micro_batch_size: 1}\nsolver: {lr: 1e-4, max_steps: 10}\n",
      on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->offload.checkpointed_inputs);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);  // whose inputs are moved
  EXPECT_TRUE(job->kernels.liger);
}

TEST(ByNames, a_switch_that_is_off_silences_what_is_said_of_adapters) {
  const std::string said = "peft_initialization: {mode: lora}\nwarm_adapter: first\n" + kRest;
  EXPECT_TRUE(read_text("use_peft: false\n" + said, on("a100", 8)));
  EXPECT_FALSE(read_text(said, on("a100", 8)));
}

TEST(ByNames, a_teacher_is_not_the_model_that_is_trained) {
  const auto job = read_text(
      "teacher_model: {model_name: Qwen/Qwen2.5-7B}\nloader: {seq_len: 1024, batch_size: 4}\n"
      "solver: {lr: 1e-4, max_steps: 10, optimizer: adamw}\n",
      on("a100", 8));
  EXPECT_NE(text_of(job).find("model"), std::string::npos);
  EXPECT_FALSE(job);
}

TEST(Accelerate, as_many_processes_as_there_are_gpus_are_asked_for) {
  const auto job = read_text("distributed_type: MULTI_GPU\nnum_processes: gpu\nmixed_precision: bf16\n", on("a100", 4));
  EXPECT_EQ(text_of(job).find("num_processes"), std::string::npos) << text_of(job);
}

}  // namespace
}  // namespace plimsoll::job
