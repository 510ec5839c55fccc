// SPDX-License-Identifier: Apache-2.0
// Files of tools around Transformers' Trainer and around Megatron-LM: what they say, and what they leave to defaults.
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::notes;
using test::on;
using test::read_text;
using test::text_of;

TEST(Axolotl, a_quantised_adapter_is_read_with_its_batch_and_length) {
  const auto job = test::read({"axolotl.yaml"}, on("a100", 2));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.1-8b");
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->micro_batches, 4);
  EXPECT_EQ(job->adapter.rank, 32);
  EXPECT_TRUE(job->adapter.quantized_base);
  EXPECT_TRUE(job->batch.packed);
  EXPECT_TRUE(job->optimizer.paged);
  EXPECT_EQ(job->optimizer.kind, OptimizerKind::kAdam8bit);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(notes(*job, "read as axolotl"));
}

TEST(Axolotl, other_training_than_supervised_is_refused) {
  const auto job = read_text("base_model: gpt2\nsequence_len: 128\nrl: grpo\ndatasets: []\n", on("a100", 1));
  EXPECT_NE(text_of(job).find("rl: 'grpo' is neither supervised nor preference training"), std::string::npos)
      << text_of(job);
}

TEST(LlamaFactory, layers_are_checkpointed_and_lengths_have_a_default) {
  auto job = test::read({"llama-factory.yaml"}, on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->batch.seq_length, 4096);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_EQ(job->adapter.targets, std::vector<std::string>{"all-linear"});
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_EQ(job->precision.load_dtype, DType::kBf16);

  job = read_text("model_name_or_path: qwen2.5-7b\nfinetuning_type: full\nbf16: true\n", on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->precision.load_dtype, DType::kFp32);  // trained weights are turned to fp32
}

TEST(MsSwift, named_deepspeed_configurations_are_known) {
  const auto job = test::read({"ms-swift.yaml"}, on("h100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_EQ(job->sharding.offload_optimizer, OffloadTarget::kCpu);
  EXPECT_EQ(job->sharding.offload_param, OffloadTarget::kCpu);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kNone);
  EXPECT_EQ(job->batch.seq_length, 8192);
}

TEST(Oumi, sections_become_one_job) {
  const auto job = test::read({"oumi.yaml"}, on("a100", 16));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kFsdp2);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp1);
  EXPECT_TRUE(job->sharding.within_node);
  EXPECT_EQ(job->adapter.rank, 64);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

TEST(Torchtune, components_name_model_adapter_and_optimizer) {
  const auto job = test::read({"torchtune.yaml"}, on("a100", 2));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.1-8b");
  EXPECT_EQ(job->adapter.kind, AdapterKind::kLora);
  EXPECT_EQ(job->adapter.targets.size(), 6U);
  EXPECT_EQ(job->precision.load_dtype, DType::kBf16);
  EXPECT_TRUE(job->batch.packed);
}

TEST(Nanotron, degrees_give_the_gpus) {
  const auto job = test::read({"nanotron.yaml"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.pipeline, 2);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_EQ(job->micro_batches, 4);
  EXPECT_EQ(job->model.layer(0).attention.kv_heads, 4);
}

TEST(GptNeox, flow_style_with_comments_is_read) {
  const auto job = test::read({"gpt-neox.yml"}, on("a100", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.pipeline, 2);
  EXPECT_TRUE(job->model.rope);
  EXPECT_FALSE(job->model.tied_embeddings);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(notes(*job, "50277 rows"));
}

TEST(Primus, defaults_come_before_overrides) {
  const auto job = test::read({"primus.yaml"}, on("mi300x", 8));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.1-8b");
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kNone);
}

TEST(TrainerScript, arguments_in_shell_are_read_with_launcher_and_deepspeed) {
  auto job = test::read({"trainer.sh"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_EQ(job->model.name, "llama2-7b");
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 2);

  ReadOptions options = on("a100");
  options.script_args = {"NPROC=1", "Qwen/Qwen2.5-7B"};
  job = test::read({"trainer.sh"}, options);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 1);
  EXPECT_EQ(job->framework, Framework::kTransformers);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
}

TEST(MegatronDeepSpeed, a_stage_in_a_file_that_the_script_writes_counts) {
  const std::string flags =
      "--deepspeed --deepspeed_config ds.json --num-layers 2 --hidden-size 64 --num-attention-heads 8 --vocab-size 100 "
      "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 8 --fp16 "
      "--checkpoint-activations";
  const auto script = [&flags](const char* stage) {
    return "#!/bin/bash\nSTAGE=" + std::string(stage) +
           "\ncat <<EOT > ds.json\n{\"zero_optimization\": {\"stage\": $STAGE}}\nEOT\ndeepspeed --num_gpus 8 "
           "pretrain_gpt.py " +
           flags;
  };
  auto job = read_text(script("1"), on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);

  job = read_text(script("3"), on("a100"));
  EXPECT_NE(text_of(job).find("ZeRO stage 3 under Megatron's parallelism is not modelled"), std::string::npos)
      << text_of(job);
}

TEST(UnknownKeys, what_cannot_matter_is_one_note_and_what_can_is_an_error) {
  const std::string known = R"("output_dir": "o", "max_length": 128, "model_name_or_path": "gpt2")";
  auto job = read_text("{" + known + R"(, "banner": "x", "favourite_colour": 3})", on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(notes(*job, "2 keys are not known and not counted: 'banner', 'favourite_colour'"));
  EXPECT_TRUE(std::none_of(job->warnings.begin(), job->warnings.end(),
                           [](const std::string& text) { return text.find("banner") != std::string::npos; }));

  ReadOptions strict = on("a100", 1);
  strict.strict = true;
  job = read_text("{" + known + R"(, "banner": "x"})", strict);
  EXPECT_NE(text_of(job).find("unknown key 'banner'"), std::string::npos) << text_of(job);

  struct Case {
    const char* key;
    const char* message;
  };
  for (const Case& c : {Case{"\"magic_parallel_size\": 4", "which speaks of parallelism"},
                        Case{"\"my_fp8_mode\": true", "which speaks of precision"},
                        Case{"\"special_lora\": true", "which speaks of adapters"},
                        Case{"\"bf61\": true, \"per_device_train_batchsize\": 3", "did you mean"},
                        Case{"\"magic_offload\": 1, \"own_batch_size\": 2", "2 keys are not known"}}) {
    job = read_text("{" + known + ", " + c.key + "}", on("a100", 1));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.key << " gave " << text_of(job);
  }
  for (const char* off : {"\"magic_parallel_size\": 1", "\"my_fp8_mode\": false", "\"eval_batch_size_of_mine\": 9"}) {
    job = read_text("{" + known + ", " + off + "}", on("a100", 1));
    EXPECT_TRUE(job) << off << " gave " << text_of(job);
  }
}

TEST(UnknownModel, is_overruled_by_a_flag_or_a_file_and_else_says_how) {
  const std::string text = R"({"output_dir": "o", "max_length": 128, "model_name_or_path": "/mnt/own/thing"})";
  auto job = read_text(text, on("a100", 1));
  EXPECT_NE(text_of(job).find("model '/mnt/own/thing' is not in the catalogue"), std::string::npos) << text_of(job);
  EXPECT_NE(text_of(job).find("--model path/of/config.json"), std::string::npos) << text_of(job);

  ReadOptions named = on("a100", 1);
  named.model = "gpt2";
  job = read_text(text, named);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "gpt2");

  job = read_job({InputFile{"args.json", text}, test::data_file("small-llama/config.json")}, on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, test::data_path("small-llama/config.json"));

  job = read_text(R"({"output_dir": "o", "max_length": 128, "model_name_or_path": "/mnt/models/Meta-Llama-3-8B/"})",
                  on("a100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3-8b");
}

TEST(Towers, tools_that_freeze_them_by_default_are_read_so) {
  auto job =
      read_text("model_name_or_path: Qwen/Qwen2-VL-7B-Instruct\nfinetuning_type: full\nbf16: true\n", on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->batch.images.freeze_tower);
  EXPECT_TRUE(job->batch.images.freeze_projector);

  job = read_text("model: Qwen/Qwen2.5-VL-7B-Instruct\ntuner_type: full\nmax_length: 2048\nfreeze_vit: false\n",
                  on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_FALSE(job->batch.images.freeze_tower);
  EXPECT_TRUE(job->batch.images.freeze_projector);

  job = read_text("base_model: Qwen/Qwen2.5-VL-7B-Instruct\nsequence_len: 2048\nmicro_batch_size: 1\n", on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_FALSE(job->batch.images.freeze_tower);  // axolotl trains all of it
}

}  // namespace
}  // namespace plimsoll::job
