// SPDX-License-Identifier: Apache-2.0
// Tuning with NeMo before 2.0: the model is a .nemo file, the sizes of the step are in the data's table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;
using testing::HasSubstr;

const std::string kTuning =
    "run: {model_train_name: llama2_7b, time_limit: '1'}\n"
    "trainer: {devices: 8, num_nodes: 2, precision: bf16, max_steps: 10}\n"
    "exp_manager: {name: x, checkpoint_callback_params: {model_parallel_size: 2}}\n"
    "model:\n  tensor_model_parallel_size: 2\n  megatron_amp_O2: true\n  restore_from_path: some.nemo\n"
    "  data: {train_ds: {max_seq_length: 2048, micro_batch_size: 2, global_batch_size: 64}}\n"
    "  optim: {name: mcore_distributed_optim, lr: 1e-5}\n";

TEST(NemoTuning, the_run_names_the_model_and_the_data_its_batch) {
  const auto job = read_text(kTuning, on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronLm);
  EXPECT_EQ(job->model.name, "llama2-7b");
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.global_batch, 64);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kNone);
}

TEST(NemoTuning, its_adapters_lie_on_query_key_and_value_unless_said_otherwise) {
  auto job = read_text(kTuning + "  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 16}}\n", on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_EQ(job->adapter.targets, std::vector<std::string>{"linear_qkv"});
  job =
      read_text(kTuning + "  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 16, target_modules: [attention]}}\n",
                on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{"linear_qkv", "linear_proj"}));
}

TEST(NemoTuning, other_adapters_and_encoders_are_refused) {
  auto job = read_text(kTuning + "  peft: {peft_scheme: ptuning}\n", on("h100"));
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("ptuning"));
  job = read_text(kTuning + "  mm_cfg: {vision_encoder: {from_pretrained: x}}\n", on("h100"));
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("mm_cfg"));
}

TEST(NemoTuning, no_layers_to_recompute_is_no_recomputation) {
  const std::string full = "  activations_checkpoint_granularity: full\n  activations_checkpoint_method: block\n";
  auto job = read_text(kTuning + full + "  activations_checkpoint_num_layers: 0\n", on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kNone);
  // "selective" looks at no method.
  job = read_text(kTuning +
                      "  activations_checkpoint_granularity: selective\n  activations_checkpoint_method: uniform\n"
                      "  activations_checkpoint_num_layers: 1\n",
                  on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kSelective);
}

// The sizes alone do not say that the layers are recurrent; the experiment above them names the program.
TEST(Flagscale, the_experiment_above_names_a_program_that_is_not_modelled) {
  namespace fs = std::filesystem;
  const fs::path conf = fs::path(testing::TempDir()) / "flagscale-experiment/conf";
  fs::create_directories(conf / "train");
  const std::string sizes =
      "system: {tensor_model_parallel_size: 1}\nmodel: {num_layers: 4, hidden_size: 64, num_attention_heads: 4, "
      "seq_length: 64, max_position_embeddings: 64, micro_batch_size: 1, global_batch_size: 8}\n"
      "data: {tokenizer: {vocab_size: 100}}\n";
  const auto read_with = [&](const std::string& program) {
    std::ofstream(conf / "train.yaml") << "experiment: {task: {type: train, entrypoint: " << program << "}}\n";
    std::ofstream(conf / "train/small.yaml") << sizes;
    return read_job({InputFile{(conf / "train/small.yaml").string(), sizes}}, on("h100", 8));
  };
  EXPECT_TRUE(read_with("flagscale/train/train_gpt.py"));
  const auto job = read_with("flagscale/train/train_rwkv.py");
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("RWKV"));
}

}  // namespace
}  // namespace plimsoll::job
