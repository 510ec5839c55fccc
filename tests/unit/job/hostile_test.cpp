// SPDX-License-Identifier: Apache-2.0
// Inputs that are cut, random, deep or huge: an error value or a valid job, never anything else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support.h"

namespace plimsoll::job {
namespace {

// Options under which every sample alone can become a job.
ReadOptions generous() {
  ReadOptions options = test::on("h100", 64, {{"seq-length", "512"}, {"micro-batch-size", "1"}});
  return options;
}

void expect_error_or_sane_job(const Result<Job>& job, const std::string& what) {
  if (!job) {
    EXPECT_FALSE(job.error().message.empty()) << what;
    return;
  }
  EXPECT_GE(job->data_parallel, 1) << what;
  EXPECT_GE(job->micro_batches, 1) << what;
  EXPECT_GE(job->model.depth(), 1) << what;
  EXPECT_GE(job->vocab_rows, job->model.vocab) << what;
}

TEST(ThoroughHostile, every_sample_cut_at_every_byte_is_an_error_or_a_job) {
  for (const auto& sample : test::samples()) {
    const InputFile file = test::data_file(sample.first);
    for (std::size_t size = 0; size <= file.text.size(); ++size) {
      const InputFile cut{file.path, file.text.substr(0, size)};
      expect_error_or_sane_job(read_job({cut}, generous()), sample.first + " cut at " + std::to_string(size));
    }
  }
}

TEST(ThoroughHostile, every_sample_with_one_byte_changed_is_an_error_or_a_job) {
  const int changes = std::getenv("PLIMSOLL_LONG") != nullptr ? 300 : 100;
  std::mt19937 random(7);
  for (const auto& sample : test::samples()) {
    const InputFile file = test::data_file(sample.first);
    for (int i = 0; i < changes; ++i) {
      InputFile changed = file;
      changed.text[random() % changed.text.size()] = static_cast<char>(random());
      expect_error_or_sane_job(read_job({changed}, generous()), sample.first);
    }
  }
}

TEST(Hostile, random_bytes_are_refused) {
  std::mt19937 random(11);
  for (const std::size_t size : {1U, 10U, 1000U, 1'000'000U}) {
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>(random());
    EXPECT_FALSE(test::read_text(text, generous())) << size;
  }
}

TEST(Hostile, deep_nesting_is_refused) {
  const std::string open(100'000, '[');
  for (const std::string& text :
       {"{\"model\": " + open, "model: " + open, "framework = 'fsdp2'\nmodel = " + open, "cfg.model.x = " + open,
        "#!/bin/sh\npython a.py --num-layers " + std::string(100'000, '('),
        "cfg.model.x = " + std::string(100'000, '-')})
    EXPECT_FALSE(test::read_text(text, generous())) << text.substr(0, 40);
}

TEST(Hostile, many_keys_end_in_an_error_not_in_a_wait) {
  std::string json = "{\"framework\": \"fsdp2\"";
  std::string overrides;
  std::string script = "#!/bin/bash\npython pretrain_gpt.py";
  for (int i = 0; i < 100'000; ++i) {
    json += ",\"key" + std::to_string(i) + "\": 1";
    overrides += "cfg.model.key" + std::to_string(i) + " = 1\n";
    script += " --key" + std::to_string(i) + " 1";
  }

  EXPECT_FALSE(test::read_text(json + "}", generous()));
  EXPECT_FALSE(test::read_text(overrides, generous()));
  EXPECT_FALSE(test::read_text(script + " --num-layers 2", generous()));
}

TEST(Hostile, overflowing_sizes_are_refused_in_every_vocabulary) {
  const std::string big = "9223372036854775808";
  const std::string biggest = "9223372036854775807";
  for (const std::string& number : {big, biggest, std::string("1e300"), std::string("-1")}) {
    for (const std::string& text :
         {"framework = 'megatron-lm'\nmodel = 'llama3-8b'\n[parallel]\ntensor_model_parallel_size = " + biggest + "\n",
          "{\"args\": {\"--num-attention-heads\": " + number +
              ", \"--num-layers\": 2, \"--hidden-size\": 64, \"--vocab-size\": 10}}",
          "{\"args\": {\"--vocab-size\": " + number +
              ", \"--num-layers\": 2, \"--hidden-size\": 64, \"--num-attention-heads\": 8}}",
          "#!/bin/sh\npython pretrain_gpt.py --num-layers " + number + " --hidden-size 64\n",
          "ddp: {}\nmodel: {num_layers: " + number + "}\n", "cfg.model.hidden_size = " + number + "\n",
          "{\"output_dir\": \"o\", \"max_length\": " + number + ", \"model_name_or_path\": \"gpt2\"}",
          "{\"train_batch_size\": " + number + ", \"zero_optimization\": {\"stage\": 1}}",
          "distributed_type: FSDP\nnum_processes: " + number + "\n",
          "[parallelism]\ndata_parallel_shard_degree = " + biggest + "\n",
          "{\"peft_type\": \"LORA\", \"base_model_name_or_path\": \"gpt2\", \"target_modules\": [\"c_attn\"], \"r\": " +
              number + "}"}) {
      ReadOptions options;
      options.gpu = "h100";
      options.overrides = {{"seq_length", "512"}};
      if (text.find("max_length") != std::string::npos) options.overrides.clear();
      EXPECT_FALSE(test::read_text(text, options)) << text;
    }
  }
}

TEST(Hostile, every_numeric_key_refuses_what_no_machine_has) {
  for (const KeyInfo& key : key_table()) {
    if (key.type != "integer") continue;
    Job job = test::llama_8b();
    EXPECT_FALSE(set_key(job, key.name, document::parse_scalar("9223372036854775807"))) << key.name;
    EXPECT_FALSE(set_key(job, key.name, document::parse_scalar("-9223372036854775808"))) << key.name;
  }
}

TEST(Hostile, extreme_but_allowed_sizes_never_overflow) {
  std::mt19937 random(3);
  const std::vector<std::string> values = {"1", "2", "7", "4096", "1048576", "16777216", "134217728"};
  for (int i = 0; i < 3000; ++i) {
    Job job = test::llama_8b(Framework::kMegatronLm);
    job.derives = true;
    for (const char* key :
         {"seq_length", "micro_batch_size", "gpus", "tensor_model_parallel_size", "pipeline_model_parallel_size",
          "context_parallel_size", "hidden_size", "ffn_hidden_size", "num_layers", "vocab_size", "global_batch_size"}) {
      const Status ignored = set_key(job, key, document::parse_scalar(values[random() % values.size()]));
      static_cast<void>(ignored);
    }
    const Status status = complete(job);
    EXPECT_TRUE(!status || job.tokens() > 0);
  }
}

}  // namespace
}  // namespace plimsoll::job
