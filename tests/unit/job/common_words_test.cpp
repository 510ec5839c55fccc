// SPDX-License-Identifier: Apache-2.0
// Words that training programs share: in tables of a tool that is not known, beside the Trainer's own, under Hydra.
#include "job/common_words.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::notes;
using test::on;
using test::read_text;
using test::text_of;

TEST(CommonWords, tables_say_model_quantisation_adapter_and_devices) {
  const auto job = test::read({"by-names-tables.yaml"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->batch.seq_length, 1536);  // of the tokenizer, where nothing else says one
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.accumulation, 8);
  EXPECT_EQ(job->cluster.gpus, 2);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kDora);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_TRUE(job->adapter.quantized_base);
  EXPECT_TRUE(job->adapter.double_quant);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
}

TEST(CommonWords, a_switch_that_is_off_silences_its_settings) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\nbnb: {use_bnb: false, load_in_4bit: true}\nlora: {use_lora: false, r: 8, "
      "target_modules: [q_proj]}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-4, epochs: 1}\n",
      on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kNone);
  EXPECT_FALSE(job->adapter.quantized_base);
}

TEST(CommonWords, how_much_is_trained_may_be_one_word) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\nlora: {r: 8}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-4, epochs: "
      "1}\n";
  const auto full = read_text("method: full_ft\n" + rest, on("a100", 8));
  ASSERT_TRUE(full) << text_of(full);
  EXPECT_EQ(full->adapter.kind, AdapterKind::kNone);

  const auto quantised = read_text("method: qlora\n" + rest, on("a100", 8));
  ASSERT_TRUE(quantised) << text_of(quantised);
  EXPECT_TRUE(quantised->adapter.quantized_base);
}

TEST(CommonWords, pairs_of_answers_are_told_by_the_loss_or_by_a_table) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-6, epochs: 1}\n";
  for (const std::string_view said : {"loss: {name: dpo, beta: 0.1}\n", "method: dpo\n", "dpo: {beta: 0.1}\n"}) {
    const auto job = read_text(std::string(said) + rest, on("a100", 8));
    ASSERT_TRUE(job) << said << text_of(job);
    EXPECT_EQ(job->batch.micro_batch, 8) << said;
    EXPECT_TRUE(notes(*job, "preference training")) << said;
  }
  const auto both = read_text("sft: {seed: 1}\ndpo: {beta: 0.1}\n" + rest, on("a100", 8));
  EXPECT_NE(text_of(both).find("a supervised and a preference stage"), std::string::npos) << text_of(both);
}

TEST(CommonWords, a_file_that_leaves_the_model_to_the_command_asks_for_it) {
  const std::string text =
      "model_cfgs: {model_name_or_path: null, model_max_length: 2048}\n"
      "train_cfgs: {per_device_train_batch_size: 4, learning_rate: 1e-5, epochs: 3, bf16: true}\n";
  EXPECT_NE(text_of(read_text(text, on("a100", 8))).find("--model"), std::string::npos);
  ReadOptions options = on("a100", 8);
  options.model = "qwen2.5-7b";
  const auto job = read_text(text, options);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(CommonWords, how_a_split_of_one_runs_does_not_matter) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-4, epochs: 1}\n";
  const auto job = read_text("distributed: {pp_size: 1, pp_engine: 1f1b}\n" + rest, on("a100", 8));
  EXPECT_TRUE(job) << text_of(job);
  const auto open = read_text("distributed: {pp_engine: 1f1b}\n" + rest, on("a100", 8));
  EXPECT_NE(text_of(open).find("pp_engine"), std::string::npos) << text_of(open);
}

TEST(CommonWords, a_program_of_the_trainer_may_use_them) {
  const auto job = test::read({"commands.yml"}, on("rtx-4090"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->cluster.gpus, 2);
  EXPECT_EQ(job->adapter.rank, 64);
  EXPECT_TRUE(job->adapter.quantized_base);
  EXPECT_TRUE(notes(*job, "lora_r over a quantised base"));
}

TEST(CommonWords, question_and_answer_are_one_sequence_of_a_decoder) {
  const std::string text = R"({"model_name_or_path": "qwen2.5-7b", "output_dir": "o", "per_device_train_batch_size": 1,
                              "source_max_len": 512, "target_max_len": 256, "bf16": true})";
  const auto job = read_text(text, on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 768);
}

TEST(CommonWords, a_batch_of_no_other_name_is_that_of_a_gpu) {
  const auto job = read_text(
      "#!/bin/bash\ntorchrun --nproc_per_node 8 sft.py --model_name_or_path qwen2.5-7b --output_dir o --max_length 128 "
      "--train_batch_size 3 --bf16 true\n",
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 3);
  EXPECT_TRUE(notes(*job, "train_batch_size is taken as the sequences of one GPU"));
}

TEST(CommonWords, settings_of_a_reward_model_that_nobody_names_say_nothing) {
  const std::string rest = "data: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-6, epochs: 1}\n";
  const auto job =
      read_text("model: {name: qwen2.5-7b, reward_model: {path: null, model_class: Pairs, dtype: float32}}\n" + rest,
                on("a100", 8));
  EXPECT_TRUE(job) << text_of(job);
  const auto named = read_text("model: {name: qwen2.5-7b, reward_model: {path: a/b}}\n" + rest, on("a100", 8));
  EXPECT_NE(text_of(named).find("reward_model"), std::string::npos) << text_of(named);
}

TEST(CommonWords, a_key_of_the_trainer_that_is_spelled_wrong_stays_an_error) {
  const auto job = read_text(R"({"model_name_or_path": "qwen2.5-7b", "output_dir": "o", "max_length": 128,
                                "per_device_train_batchsize": 3})",
                             on("a100", 1));
  EXPECT_NE(text_of(job).find("did you mean 'per_device_train_batch_size'"), std::string::npos) << text_of(job);
}

TEST(CommonWords, a_file_of_deepspeeds_is_told_by_its_name_under_any_key) {
  const std::string rest =
      "model: {name: qwen2.5-7b}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-4, epochs: 1, "
      "ours: cfg/ds_z3_config.json}\n";
  const auto job = read_text(rest, on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.zero_stage, 3);
}

TEST(CommonWords, several_configurations_of_a_file_are_listed) {
  const std::string text =
      "defaults: {max_length: 512, per_device_train_batch_size: 2, learning_rate: 1e-5, num_train_epochs: 1}\n"
      "small: {model_name: Qwen/Qwen2.5-1.5B}\nlarge: {model_name: Qwen/Qwen2.5-7B, per_device_train_batch_size: 1}\n";
  EXPECT_NE(text_of(read_text(text, on("a100", 8))).find("2 configurations are in the file: small, large"),
            std::string::npos);
  ReadOptions options = on("a100", 8);
  options.config = "large";
  const auto job = read_text(text, options);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->batch.micro_batch, 1);
  EXPECT_EQ(job->batch.seq_length, 512);
}

TEST(CommonWords, models_that_make_images_are_refused) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\ndata: {max_length: 77}\ntrain: {freeze_unet: false, batch_size: 4, lr: 1e-4, epochs: "
      "1}\n",
      on("a100", 8));
  EXPECT_NE(text_of(job).find("images or video"), std::string::npos) << text_of(job);
}

TEST(CommonWords, a_reference_beside_the_model_is_counted_whatever_the_loss) {
  const auto job = read_text(
      "#!/bin/bash\ntorchrun --nproc_per_node 8 rl.py --model_name_or_path qwen2.5-7b --output_dir o "
      "--per_device_train_batch_size 1 --max_length 512 --bf16 true --ref_model_path /m/sft\n",
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->reference_model);
}

TEST(CommonWords, tables_beside_the_trainers_arguments_are_not_passed_over) {
  const std::string plain =
      R"({"model_name_or_path": "qwen2.5-7b", "output_dir": "o", "max_length": 128, "bf16": true)";
  const auto job =
      read_text(plain + R"(, "accelerate_launch_args": {"use_fsdp": true, "fsdp_sharding_strategy": "FULL_SHARD"}})",
                on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kFsdp2);
  const auto open = read_text(plain + R"(, "engine": {"zero_shards": 4}})", on("a100", 8));
  EXPECT_NE(text_of(open).find("engine.zero_shards"), std::string::npos) << text_of(open);
}

TEST(CommonWords, what_a_file_is_for_may_be_in_its_name) {
  const std::string text =
      "model: {name: qwen2.5-7b}\ndata: {max_length: 1024}\ntrain: {batch_size: 4, lr: 1e-6, epochs: 1}\n";
  const auto job = read_job({InputFile{"configs/dpo_full.yaml", text}}, on("a100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 8);
  EXPECT_TRUE(notes(*job, "as the file's name says"));
  const auto scores = read_job({InputFile{"configs/rm.yaml", text}}, on("a100", 8));
  ASSERT_TRUE(scores) << text_of(scores);
  EXPECT_EQ(scores->model.head, model::Head::kScores);
  EXPECT_EQ(scores->batch.micro_batch, 8);
}

TEST(Hydra, a_command_lays_groups_and_values_over_the_tree_of_its_program) {
  const auto job = test::read({"hydra/train.sh"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-1.5b");
  EXPECT_EQ(job->batch.seq_length, 8192);  // of task=long, which goes to the top
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.accumulation, 2);
  EXPECT_EQ(job->cluster.gpus, 4);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
}

TEST(Launch, a_file_of_accelerate_that_is_not_here_is_taken_by_its_name) {
  const std::string rest =
      " train.py --model_name_or_path qwen2.5-7b --output_dir o --per_device_train_batch_size 1 --max_length 512 "
      "--bf16 "
      "true\n";
  const auto sharded =
      read_text("#!/bin/bash\naccelerate launch --config_file /home/me/fsdp_8gpu.yaml" + rest, on("a100", 8));
  ASSERT_TRUE(sharded) << text_of(sharded);
  EXPECT_EQ(sharded->framework, Framework::kFsdp2);
  EXPECT_TRUE(test::warns(*sharded, "is taken from its name"));
  const auto staged =
      read_text("#!/bin/bash\naccelerate launch --config_file /home/me/ds_zero2.yaml" + rest, on("a100", 8));
  ASSERT_TRUE(staged) << text_of(staged);
  EXPECT_EQ(staged->sharding.zero_stage, 2);
  const auto open = read_text("#!/bin/bash\naccelerate launch --config_file /home/me/ours.yaml" + rest, on("a100", 8));
  EXPECT_NE(text_of(open).find("ours.yaml: no such file"), std::string::npos) << text_of(open);
}

TEST(Launch, a_path_of_another_machine_is_found_by_its_last_parts) {
  const auto job = read_job(
      {InputFile{test::data_path("input.sh"),
                 "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path qwen2.5-7b --output_dir o "
                 "--per_device_train_batch_size 1 --max_length 512 --bf16 true --deepspeed /nfs/me/job/zero3.json\n"}},
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.zero_stage, 3);
}

TEST(Launch, a_manifest_whose_image_starts_the_program_is_read_by_what_it_mounts) {
  const auto job = read_text(
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  config.json: |\n    {\"model_name_or_path\": "
      "\"qwen2.5-7b\", \"output_dir\": \"o\", \"per_device_train_batch_size\": 4, \"max_seq_length\": 1024, \"bf16\": "
      "true}\n---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: j}\nspec:\n  template:\n    "
      "spec:\n      containers:\n      - name: t\n        image: i\n        resources: {limits: {nvidia.com/gpu: 2}}\n",
      on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 2);
  EXPECT_EQ(job->batch.micro_batch, 4);
}

}  // namespace
}  // namespace plimsoll::job
