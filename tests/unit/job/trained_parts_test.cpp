// SPDX-License-Identifier: Apache-2.0
// Which parts of a model programs train: towers and projectors, rewards, teachers, chosen layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/vision.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::notes;
using test::on;
using test::read_text;
using test::text_of;
using test::warns;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Job> program(const std::string& name, const std::string& flags) {
  return read_text("#!/bin/bash\ntorchrun --nproc_per_node 8 " + name +
                       " --model_name_or_path Qwen/Qwen2-7B-Instruct --bf16 True --per_device_train_batch_size 2 "
                       "--model_max_length 2048 --output_dir out " +
                       flags + "\n",
                   on("h100"));
}
Result<Job> llava(const std::string& flags) {
  return program("llava/train/train_mem.py", "--learning_rate 1e-5 " + flags);
}

struct Frozen {
  bool tower, projector, text;
  friend bool operator==(const Frozen&, const Frozen&) = default;
};
Frozen frozen(const Job& job) {
  const Images& images = job.batch.images;
  return {images.freeze_tower, images.freeze_projector, images.freeze_language};
}

constexpr const char* kTower = "--vision_tower openai/clip-vit-large-patch14-336 ";

TEST(TrainedParts, a_named_tower_stands_before_the_language_model) {
  const auto job = llava(kTower + std::string("--mm_projector_type linear"));
  ASSERT_TRUE(job) << text_of(job);
  ASSERT_NE(job->model.vision, nullptr);
  EXPECT_EQ(job->model.vision->projector, model::Projector::kLinear);
  EXPECT_EQ(job->model.vision->image_size, 336);
  EXPECT_EQ(frozen(*job), (Frozen{true, false, false}));
}

TEST(TrainedParts, every_program_has_words_for_what_is_trained) {
  const std::string tower = kTower;
  const std::pair<std::string, Frozen> rows[] = {
      {"--tune_mm_mlp_adapter True", {true, false, true}},
      {"--freeze_backbone True", {true, false, true}},
      {"--mm_tunable_parts=mm_mlp_adapter", {true, false, true}},
      {"--mm_tunable_parts=mm_vision_tower,mm_mlp_adapter,mm_language_model", {false, false, false}},
      {"--tune_mm_projector True --tune_language_model False --tune_vision_tower False", {true, false, true}},
      {"--tune_mm_vision True --tune_mm_mlp True --tune_mm_llm False", {false, false, true}},
      {"--unfreeze_mm_vision_tower True", {false, false, false}},
      {"--freeze_mm_mlp_adapter True", {true, true, false}},
      {"--tune_type_llm frozen --tune_type_vision_tower frozen --tune_type_connector full", {true, false, true}},
      {"--freeze_llm True --freeze_mlp False --freeze_backbone True", {true, false, true}},
      {"--fix_llm True --fix_vit True", {true, false, true}},
  };
  for (const auto& [flags, wanted] : rows) {
    const auto job = llava(tower + flags);
    ASSERT_TRUE(job) << flags << ": " << text_of(job);
    EXPECT_EQ(frozen(*job), wanted) << flags;
  }
}

TEST(TrainedParts, rates_of_parts_say_which_are_trained) {
  const auto job = program("train.py", kTower + std::string("--mm_projector_lr 1e-3"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(frozen(*job), (Frozen{true, false, true}));
}

TEST(TrainedParts, adapters_are_trained_beside_the_projector) {
  const auto job = llava(kTower + std::string("--lora_enable True --lora_r 128 --tune_mm_mlp_adapter True"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kLora);
  EXPECT_EQ(frozen(*job), (Frozen{true, false, false}));
}

TEST(TrainedParts, without_a_tower_nothing_would_be_trained) {
  const auto job = llava("--tune_mm_mlp_adapter True");
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("nothing is trained"));
}

TEST(TrainedParts, towers_that_are_not_known_are_told) {
  const auto job = llava("--vision_tower my/encoder --mm_projector_type resampler");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(warns(*job, "counted as clip-vit-large-patch14-336"));
  EXPECT_TRUE(warns(*job, "resampler is counted as mlp2x_gelu"));
}

TEST(TrainedParts, crops_are_cut_to_the_sequence) {
  const auto job = llava(kTower + std::string("--image_aspect_ratio anyres_max_9"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.images.tiles, 3);  // of 576 tokens, in 2,048
  EXPECT_TRUE(notes(*job, "image_tiles: 3 crops"));
}

TEST(TrainedParts, a_program_may_say_its_loop_and_leave_its_targets_open) {
  const auto job = llava("--task DPO --dpo_beta 0.1 --lora_enable True --lora_r 8 --lora_target_modules auto");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->adapter.targets, std::vector<std::string>{"all-linear"});
}

TEST(TrainedParts, a_rank_with_its_modules_needs_no_switch) {
  const auto job = read_text(
      "#!/bin/bash\ntorchrun --nproc_per_node 8 sft.py --model_name_or_path Qwen/Qwen2-7B-Instruct --bf16 True "
      "--per_device_train_batch_size 2 --query_len 1280 --response_len 768 --learning_rate 1e-5 --bits 16 --lora_r 64 "
      "--lora_modules q_proj k_proj\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 64);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{"q_proj", "k_proj"}));
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(TrainedParts, arguments_with_a_rank_and_no_switch_are_of_adapters) {
  const std::string text =
      R"({"model_name_or_path": "meta-llama/Llama-2-7b-chat-hf", "per_device_train_batch_size": 64,
          "max_seq_length": 512, "lora_r": 16, "torch_dtype": "bfloat16", "learning_rate": 2e-4, "output_dir": "out")";
  const auto job = read_text(text + "}", on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 16);
  const auto trl = read_text(text + R"(, "packing": true})", on("h100", 1));
  ASSERT_TRUE(trl) << text_of(trl);
  EXPECT_EQ(trl->adapter.kind, AdapterKind::kNone);
}

TEST(TrainedParts, the_largest_image_is_counted_where_pixels_are_limited) {
  const auto job = read_text(
      "#!/bin/bash\ntorchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-VL-3B-Instruct --bf16 True "
      "--per_device_train_batch_size 2 --model_max_length 4096 --learning_rate 1e-5 --max_pixels 1003520 "
      "--min_pixels 784 --tune_mm_vision False --tune_mm_mlp True --tune_mm_llm True\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.images.height, 980);
  EXPECT_TRUE(job->batch.images.freeze_tower);
}

TEST(TrainedParts, a_reward_model_has_scores_and_pairs) {
  const auto job = program("train_rm.py", "--learning_rate 1e-5");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.head, model::Head::kScores);
  EXPECT_EQ(job->model.classes, 1);
  EXPECT_EQ(job->batch.micro_batch, 4);
  const auto steps = program("prm.py", "--learning_rate 1e-5");
  ASSERT_TRUE(steps) << text_of(steps);
  EXPECT_EQ(steps->batch.micro_batch, 2);
  const auto factory = read_text(
      "model_name_or_path: Qwen/Qwen2-7B-Instruct\nstage: rm\nfinetuning_type: full\ntemplate: qwen\n"
      "per_device_train_batch_size: 1\ncutoff_len: 1024\nbf16: true\n",
      on("h100", 8));
  ASSERT_TRUE(factory) << text_of(factory);
  EXPECT_TRUE(factory->model.keeps_language_head);
  EXPECT_EQ(factory->batch.micro_batch, 2);
}

TEST(TrainedParts, a_teacher_has_any_of_the_words_that_find_a_model) {
  for (const char* key : {"teacher_model_name_or_path", "kd_teacher_ckpt", "teacher_hf_dir"}) {
    const auto job = program("train.py", std::string("--learning_rate 1e-5 --") + key + " Qwen/Qwen2-72B-Instruct");
    ASSERT_TRUE(job) << key << ": " << text_of(job);
    EXPECT_NE(job->teacher, nullptr) << key;
  }
  const auto job = program("train.py", "--learning_rate 1e-5 --teacher_temperature 2");
  EXPECT_TRUE(!job || job->teacher == nullptr);
}

TEST(TrainedParts, a_teacher_is_found_by_its_name) {
  const auto job = program("train.py", "--learning_rate 1e-5 --teacher_model_path Qwen/Qwen2-72B-Instruct");
  ASSERT_TRUE(job) << text_of(job);
  ASSERT_NE(job->teacher, nullptr);
  EXPECT_EQ(job->teacher->hidden, 8192);
  const auto unknown = program("train.py", "--learning_rate 1e-5 --teacher_model_path /checkpoints/best");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().hint, HasSubstr("--teacher-model"));
  const auto table = read_text(
      "models: {teacher: Qwen/Qwen2-72B-Instruct, student: Qwen/Qwen2-1.5B}\n"
      "training: {per_device_train_batch_size: 1, learning_rate: 2.0e-5, num_train_epochs: 3, bf16: true}\n"
      "tokenizer: {max_length: 4096}\ndistillation: {temperature: 2.0, alpha: 0.5}\n",
      on("h100", 8));
  ASSERT_TRUE(table) << text_of(table);
  ASSERT_NE(table->teacher, nullptr);
  EXPECT_EQ(table->model.hidden, 1536);
}

TEST(TrainedParts, chosen_layers_are_read) {
  const auto job = read_text(
      "model_name_or_path: Qwen/Qwen2-7B-Instruct\nstage: sft\nfinetuning_type: freeze\ntemplate: qwen\n"
      "freeze_trainable_layers: 3\nper_device_train_batch_size: 1\ncutoff_len: 1024\nbf16: true\n",
      on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->trainable_layers, 3);
  const auto part = read_text(
      "model_name_or_path: Qwen/Qwen2-7B-Instruct\nstage: sft\nfinetuning_type: freeze\ntemplate: qwen\n"
      "freeze_trainable_modules: mlp,self_attn\nper_device_train_batch_size: 1\ncutoff_len: 1024\nbf16: true\n",
      on("h100", 8));
  ASSERT_TRUE(part) << text_of(part);
  EXPECT_EQ(part->trainable_layers, 2);
  EXPECT_THAT(part->trainable_parameters, ElementsAre(R"(.*\.\d+\.mlp)", R"(.*\.\d+\.self_attn)"));
}

TEST(TrainedParts, axolotl_names_the_parameters_that_it_trains) {
  const std::string text =
      "base_model: mistralai/Mistral-7B-v0.1\nsequence_len: 2048\nmicro_batch_size: 1\nnum_epochs: 1\n"
      "learning_rate: 0.0002\nbf16: true\nunfrozen_parameters:\n- ^model.embed_tokens.weight$[:32000]\n"
      "- model.layers.2[0-9].mlp\n";
  const auto job = read_text(text, on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_THAT(job->trainable_parameters, ElementsAre("^model.embed_tokens.weight$", "model.layers.2[0-9].mlp"));
  const auto unclear = read_text(text + "- (?!model)\n", on("h100", 8));
  ASSERT_FALSE(unclear);
  EXPECT_THAT(unclear.error().message, HasSubstr("look ahead or behind"));
}

TEST(TrainedParts, chosen_layers_are_read_by_their_names_too) {
  const auto job = read_text(
      "model: Qwen/Qwen3-4B\nmodel_class: llm\npeft_config: {name: freeze, freeze_trainable_layers: 2, "
      "freeze_trainable_modules: all}\ndist_config: {name: fsdp2}\nmicro_batch_size: 1\ncutoff_len: 2048\n"
      "learning_rate: 2.0e-5\nmax_steps: 10\noutput_dir: out\n",
      on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->trainable_layers, 2);
}

TEST(TrainedParts, swift_names_its_teacher) {
  const auto job = read_text(
      "#!/bin/bash\nNPROC_PER_NODE=4 swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-7B --teacher_model "
      "Qwen/Qwen2.5-14B-Instruct --tuner_type full --torch_dtype bfloat16 --per_device_train_batch_size 4 "
      "--max_length 4096 --deepspeed zero3 --lmbda 0\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  ASSERT_NE(job->teacher, nullptr);
  EXPECT_EQ(job->teacher->hidden, 5120);
}

TEST(TrainedParts, what_is_not_modelled_is_refused) {
  for (const char* flags : {"--low_rank_training True", "--use_lisa True --lisa_activated_layers 1"}) {
    const auto job = llava(flags);
    ASSERT_FALSE(job) << flags;
    EXPECT_THAT(job.error().message, HasSubstr("not modelled"));
  }
}

}  // namespace
}  // namespace plimsoll::job
