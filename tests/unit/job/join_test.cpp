// SPDX-License-Identifier: Apache-2.0
// Several files as one job.
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::text_of;

TEST(Join, the_order_of_files_does_not_matter) {
  std::vector<std::string> names = {"accelerate-deepspeed.yaml", "adapter_config.json", "small-llama/config.json",
                                    "training-arguments.json"};
  ReadOptions options = on("a100");
  options.model = "llama3.2-1b";
  std::sort(names.begin(), names.end());
  std::string first;
  do {
    const auto job = test::read(names, options);
    ASSERT_TRUE(job) << text_of(job);
    std::string text;
    for (const std::string& key : key_names())
      if (const auto value = value_of(*job, key)) text += key + "=" + document::to_text(*value) + " ";
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  } while (std::next_permutation(names.begin(), names.end()));
}

TEST(Join, files_that_disagree_are_both_named) {
  const InputFile arguments{"args.json",
                            R"({"per_device_train_batch_size": 2, "max_length": 128, "model_name_or_path": "gpt2"})"};
  const InputFile deepspeed{"ds.json", R"({"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}})"};

  const auto job = read_job({arguments, deepspeed}, on("a100", 1));
  EXPECT_NE(text_of(job).find("args.json: per_device_train_batch_size is 2"), std::string::npos) << text_of(job);
  EXPECT_NE(text_of(job).find("ds.json: train_micro_batch_size_per_gpu is 4"), std::string::npos) << text_of(job);

  const auto decided = read_job({arguments, deepspeed}, on("a100", 1, {{"micro-batch-size", "3"}}));
  ASSERT_TRUE(decided) << text_of(decided);
  EXPECT_EQ(decided->batch.micro_batch, 3);
}

TEST(Join, values_that_mean_the_same_do_not_disagree) {
  const auto job =
      read_job({{"args.json", R"({"per_device_train_batch_size": 4, "max_length": 128, "model_name_or_path": "gpt2"})"},
                {"ds.json", R"({"train_micro_batch_size_per_gpu": 4.0, "gradient_clipping": 1})"}},
               on("a100", 1));

  ASSERT_TRUE(job) << text_of(job);
}

TEST(Join, two_frameworks_or_two_models_are_refused) {
  auto job = read_job({{"a.yaml", "--num-layers: 2\n"}, {"b.json", R"({"train_batch_size": 8})"}}, on("a100", 1));
  EXPECT_NE(text_of(job).find("a.yaml is for megatron-lm, b.json is for deepspeed"), std::string::npos) << text_of(job);

  const std::string config = test::data_file("small-llama/config.json").text;
  job = read_job({{"one/config.json", config}, {"two/config.json", config}}, on("a100"));
  EXPECT_NE(text_of(job).find("both give a model"), std::string::npos) << text_of(job);

  job = test::read({"accelerate-fsdp.yaml", "zero2.json"}, on("a100"));
  EXPECT_NE(text_of(job).find("they cannot describe one job"), std::string::npos) << text_of(job);
}

TEST(Join, the_framework_option_overrules_recognition) {
  ReadOptions options =
      on("h100", 8, {{"seq-length", "2048"}, {"micro-batch-size", "1"}, {"tensor-model-parallel-size", "4"}});
  options.framework = Framework::kMegatronBridge;

  const auto job = test::read({"small-llama/config.json"}, options);

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
  EXPECT_EQ(job->parallel.tensor, 4);
}

TEST(Join, a_model_alone_is_a_transformers_job_with_warnings) {
  const auto job = test::read({"small-llama/config.json"}, on("h100", 1, {{"seq-length", "2048"}}));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kTransformers);
  EXPECT_TRUE(test::warns(*job, "framework: not given"));
  EXPECT_TRUE(test::warns(*job, "micro_batch_size: not given"));
}

TEST(Join, no_file_but_a_model_name_is_enough) {
  ReadOptions options = on("h100", 8, {{"seq-length", "2048"}, {"micro-batch-size", "1"}});
  options.framework = Framework::kFsdp2;
  options.model = "llama3-8b";

  const auto job = read_job({}, options);

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3-8b");
}

TEST(Join, an_index_needs_its_config_and_must_agree) {
  const std::string index =
      R"({"metadata": {"total_size": 2200096768}, "weight_map": {"model.embed_tokens.weight": "a.safetensors"}})";
  auto job = read_job({{"model.safetensors.index.json", index}}, on("h100", 1));
  EXPECT_NE(text_of(job).find("needs the model's config.json"), std::string::npos) << text_of(job);

  job = read_job({test::data_file("small-llama/config.json"), {"index.json", index}},
                 on("h100", 1, {{"seq-length", "512"}}));
  EXPECT_TRUE(job) << text_of(job);

  const std::string wrong =
      R"({"metadata": {"total_size": 5000000}, "weight_map": {"model.embed_tokens.weight": "a.safetensors"}})";
  job = read_job({test::data_file("small-llama/config.json"), {"index.json", wrong}},
                 on("h100", 1, {{"seq-length", "512"}}));
  EXPECT_FALSE(job);
}

}  // namespace
}  // namespace plimsoll::job
