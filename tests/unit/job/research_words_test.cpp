// SPDX-License-Identifier: Apache-2.0
// Words and habits of research repositories: trees of Hydra, caches of gradients, heads for speculative decoding, loops
// that only a folder names.
#include <gtest/gtest.h>

#include "framework/transformers/draft_heads.h"
#include "job/unknown.h"
#include "model/parameters.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::notes;
using test::on;
using test::read_text;
using test::text_of;
using test::warns;

constexpr const char* kTrained =
    " --bf16 True --per_device_train_batch_size 4 --model_max_length 1024 --learning_rate 1e-5 --num_train_epochs 1";

TEST(ResearchWords, an_experiment_of_a_tree_is_read_over_the_one_that_it_names_and_its_model_is_a_class) {
  const auto job = test::read({"hydra-package/experiment/wide.yaml"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.layers.size(), 24U);
  EXPECT_EQ(job->model.hidden, 1024);
  EXPECT_EQ(job->model.vocab, 50257);
  EXPECT_EQ(job->batch.seq_length, 1024);
  EXPECT_EQ(job->batch.micro_batch, 4);  // what one GPU's loader gives, beside the whole
  EXPECT_EQ(job->batch.global_batch, 256);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_TRUE(notes(*job, "a class of Transformers in the file (gpt2)"));
  EXPECT_TRUE(warns(*job, "residual_in_fp32"));
}

TEST(ResearchWords, a_batch_that_is_computed_where_it_runs_is_asked_for) {
  const auto job = read_text(
      "model: {name: qwen2.5-7b}\ntrainer: {max_steps: 10}\ndatamodule: {batch_size: \"${eval:2 * 4}\", max_length: "
      "512}\n"
      "train: {global_batch_size: 64, lr: 1e-4}\n",
      on("h100", 8));

  ASSERT_FALSE(job);
  EXPECT_NE(text_of(job).find("datamodule.batch_size"), std::string::npos) << text_of(job);
}

TEST(ResearchWords, of_a_batch_with_cached_gradients_a_chunk_is_counted) {
  const auto job = read_text(
      "train_args: {num_epochs: 1, learning_rate: 2e-4, grad_cache: true, chunk_size: 32}\n"
      "model_args: {model_type: encoder, model_name: EleutherAI/pythia-160m, seq_len: 128}\n"
      "data_args: {batch_size: 1024}\n",
      on("h100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 32);
  EXPECT_EQ(job->batch.global_batch, 1024);
  EXPECT_TRUE(notes(*job, "gradients are cached; 32 sequences at a time are counted"));
}

TEST(ResearchWords, a_mixture_in_the_words_of_olmo_is_built_of_its_sizes) {
  const auto job = read_text(
      "model: {d_model: 2048, n_heads: 16, n_layers: 16, mlp_ratio: 1, vocab_size: 50280, embedding_size: 50304, "
      "activation_type: swiglu, attention_layer_norm: true, moe_num_experts: 64, moe_top_k: 8, "
      "max_sequence_length: 2048}\n"
      "optimizer: {name: adamw}\ndevice_train_microbatch_size: 2\nglobal_train_batch_size: 64\nmax_duration: 2ep\n",
      on("h100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(model::count_parameters(job->model).total, 6'919'161'856);  // as the catalogue has OLMoE-1B-7B
}

TEST(ResearchWords, heads_for_speculative_decoding_are_no_training_of_the_model) {
  const auto heads =
      read_text(std::string("torchrun --nproc_per_node=4 train.py --model_name_or_path lmsys/vicuna-7b-v1.3 "
                            "--medusa_num_heads 3") +
                    kTrained,
                on("h100"));
  const auto draft = read_text(
      "model: {target_model_path: Qwen/Qwen2.5-7B-Instruct, draft_model_config: draft.json}\n"
      "data: {max_length: 4096}\ntraining: {strategy: eagle3, num_epochs: 10, batch_size: 1}\n",
      on("h100", 8));

  ASSERT_FALSE(heads);
  EXPECT_NE(text_of(heads).find("medusa_num_heads: heads or a small model"), std::string::npos) << text_of(heads);
  ASSERT_FALSE(draft);
  EXPECT_NE(text_of(draft).find("speculative decoding"), std::string::npos) << text_of(draft);
}

TEST(ResearchWords, a_switch_for_such_heads_that_is_off_says_nothing) {
  document::Node root;
  root.kind = document::Node::Kind::kObject;
  root.members.emplace_back("draft_model", document::Node{});
  EXPECT_TRUE(refuse_draft_heads(root));
}

TEST(ResearchWords, a_program_whose_name_says_nothing_is_told_apart_by_its_folder) {
  const std::string rest = std::string(" --model_name_or_path Qwen/Qwen2.5-7B") + kTrained;
  const auto reward = read_text("torchrun --nproc_per_node=4 src/rm_stage/train.py" + rest, on("h100"));
  const auto plain = read_text("torchrun --nproc_per_node=4 src/sft_stage/train.py" + rest, on("h100"));

  ASSERT_TRUE(reward) << text_of(reward);
  EXPECT_TRUE(notes(*reward, "a reward model"));
  EXPECT_EQ(reward->batch.micro_batch, 8);
  ASSERT_TRUE(plain) << text_of(plain);
  EXPECT_EQ(plain->batch.micro_batch, 4);
}

TEST(ResearchWords, rotations_alone_are_not_the_weights) {
  const auto job =
      read_text(std::string("torchrun --nproc_per_node=4 optimize_rotation.py --input_model Qwen/Qwen2.5-7B "
                            "--w_bits 4") +
                    kTrained,
                on("h100"));

  ASSERT_FALSE(job);
  EXPECT_NE(text_of(job).find("rotations over frozen weights"), std::string::npos) << text_of(job);
}

TEST(ResearchWords, short_words_for_a_batch_and_words_for_a_models_file_are_read) {
  const auto job = read_text(
      "accelerate launch --num_processes 8 train.py --model_train_path Qwen/Qwen2.5-7B --max_input_length 2048 "
      "--train_bsz_per_gpu 4 --gradient_accumulation_steps 2 --learning_rate 1e-5 --n_epochs 2\n",
      on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(ResearchWords, a_batch_in_short_words_of_another_kind_is_not_passed_over) {
  EXPECT_EQ(subject_of("some_bsz"), "the batch");
  EXPECT_EQ(subject_of("loss.in_batch_term_weight"), "");
}

TEST(ResearchWords, adam_mini_keeps_one_state_per_weight) {
  const auto flags =
      read_text(std::string("deepspeed --num_gpus 8 main.py --model_name_or_path Qwen/Qwen2.5-7B --optimizer adam_mini "
                            "--zero_stage 2 --deepspeed") +
                    kTrained,
                on("h100"));

  ASSERT_TRUE(flags) << text_of(flags);
  EXPECT_EQ(flags->optimizer.kind, OptimizerKind::kSgd);
  EXPECT_TRUE(flags->optimizer.momentum);
  EXPECT_TRUE(warns(*flags, "one state per weight"));
}

TEST(ResearchWords, the_first_task_of_an_array_is_read) {
  const auto job = read_text(
      std::string("#!/bin/bash\n#SBATCH --array=4-11%4\nMODELS=(\"EleutherAI/pythia-1b\" \"EleutherAI/pythia-2.8b\")\n"
                  "MODEL=${MODELS[$((SLURM_ARRAY_TASK_ID / 4))]}\n"
                  "torchrun --nproc_per_node=8 train.py --model_name_or_path $MODEL") +
          kTrained + "\n",
      on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "pythia-2.8b");
}

TEST(ResearchWords, a_default_holds_for_a_word_that_nobody_gives_the_script) {
  const auto job = read_text(std::string("#!/bin/bash\nMODEL=$1\nMODEL=${MODEL:-/models/Qwen2___5-7B/}\n"
                                         "torchrun --nproc_per_node=8 train.py --model_name_or_path $MODEL") +
                                 kTrained + "\n",
                             on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");  // ModelScope's folders write a point as three strokes
}

TEST(ResearchWords, a_pattern_for_the_decoder_inside_a_larger_model_finds_the_decoder) {
  const auto job = read_text(
      "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 1\nmax_length: 512\nbf16: true\n"
      "use_peft: true\nlora_r: 8\nlora_target_modules: '(.*(language_model).*(q_proj|v_proj).*$)'\n",
      on("h100", 1));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 8);
}

}  // namespace
}  // namespace plimsoll::job
