// SPDX-License-Identifier: Apache-2.0
#include "rl/read.h"

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "rl/keys.h"
#include "rl/support.h"

namespace plimsoll::rl {
namespace {

const std::string kFile = R"(framework = "telescope"
model = "qwen2.5-7b"
trainer_num_workers = 4
[cluster]
gpu = "h100"
gpus = 8
[algorithm]
prompts_batch_size_for_trainer = 64
[lengths]
prompt_mean = 300
prompt_max = 396
completion_mean = 1100
completion_cv = 0.8
[inference]
tensor_parallel_size = 2
version = "0.21"
[trainer]
gradient_checkpointing = false
[trainer.environment]
PYTORCH_CUDA_ALLOC_CONF = "expandable_segments:True"
)";

Result<Run> read(const std::string& text, const Settings& flags = {}) {
  return read_run(job::InputFile{"run.toml", text}, flags);
}

std::string error_of(const Settings& more) {
  const auto run = read_run({}, with(telescope_settings(), more));
  return run ? "" : to_string(run.error());
}
std::string hint_of(const Settings& more) {
  const auto run = read_run({}, with(telescope_settings(), more));
  return run ? "" : run.error().hint;
}

TEST(ReadRun, a_file_is_read_over_the_frameworks_defaults) {
  const auto run = read(kFile);
  ASSERT_TRUE(run.has_value()) << to_string(run.error());
  EXPECT_EQ(run->framework, Framework::kTelescope);
  EXPECT_EQ(run->trainer_gpus, 4);
  EXPECT_EQ(run->inference_gpus, 4);
  EXPECT_EQ(run->servers(), 2);
  EXPECT_EQ(run->server.version, (inference::Version{0, 21, 0}));
  EXPECT_EQ(run->algorithm.group_size, 8);
  EXPECT_EQ(run->completion.maximum, 3700);
  EXPECT_EQ(run->staleness.limit, 2);
  EXPECT_EQ(run->staleness.max_off_policy_steps, 8);
  EXPECT_EQ(run->lanes_per_server(), 256);
  EXPECT_FALSE(run->server.prefix_caching);
  EXPECT_EQ(run->trainer.recompute.granularity, job::RecomputeGranularity::kNone);
  EXPECT_EQ(run->trainer.environment.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(run->trainer.sharding.stored, job::DType::kFp32);
  EXPECT_EQ(run->trainer.precision.compute, job::DType::kBf16);
  EXPECT_EQ(run->trainer.batch.seq_length, 4096);
}

TEST(ReadRun, flags_overrule_the_file) {
  const auto run = read(kFile, {{"max_async_rollout", "5"}, {"gradient_checkpointing", "true"}, {"gpus", "16"}});
  ASSERT_TRUE(run.has_value()) << to_string(run.error());
  EXPECT_EQ(run->staleness.limit, 5);
  EXPECT_EQ(run->inference_gpus, 12);
  EXPECT_EQ(run->trainer.recompute.granularity, job::RecomputeGranularity::kFull);
}

TEST(ReadRun, every_framework_has_its_own_defaults) {
  const Settings common = {{"model", "qwen2.5-7b"},
                           {"gpu", "h100"},
                           {"gpus", "8"},
                           {"group_size", "8"},
                           {"prompts_per_step", "64"},
                           {"prompt_mean", "300"},
                           {"completion_mean", "1100"},
                           {"max_tokens", "4000"}};
  const auto of = [&](const char* name) { return run_of(with(common, {{"framework", name}})); };
  EXPECT_TRUE(of("verl").is_colocated());
  EXPECT_EQ(of("verl").server.memory_fraction, 0.5);
  EXPECT_EQ(of("verl").server.tensor, 2);
  EXPECT_TRUE(of("verl").algorithm.logprob_pass);
  EXPECT_EQ(of("openrlhf").trainer_framework, job::Framework::kDeepSpeed);
  EXPECT_EQ(of("nemo-rl").server.memory_fraction, 0.6);
  EXPECT_TRUE(of("nemo-rl").algorithm.reference_pass);
  EXPECT_FALSE(of("prime-rl").is_colocated());
  EXPECT_EQ(of("prime-rl").loss_chunk, 8192);
  EXPECT_EQ(of("generic").staleness.limit, 1);
  EXPECT_EQ(of("verl").packing.seq_len, of("verl").prompt.maximum + 4000);
}

TEST(ReadRun, what_the_facts_do_not_say_is_asked_for) {
  Settings bare = {{"framework", "verl"}, {"model", "qwen2.5-7b"}, {"gpu", "h100"}, {"gpus", "8"}};
  const auto ask = [&bare] { return to_string(read_run({}, bare).error()); };
  EXPECT_NE(ask().find("samples per prompt"), std::string::npos);
  bare.emplace_back("group_size", "8");
  EXPECT_NE(ask().find("prompts per step"), std::string::npos);
  bare.emplace_back("prompts_per_step", "8");
  EXPECT_NE(ask().find("mean prompt length"), std::string::npos);
  bare.emplace_back("prompt_mean", "100");
  EXPECT_NE(ask().find("mean completion length"), std::string::npos);
  bare.emplace_back("completion_mean", "100");
  EXPECT_TRUE(read_run({}, bare).has_value());
  bare.insert(bare.end(), {{"mode", "async"}, {"placement", "disaggregated"}});
  EXPECT_NE(ask().find("how far generation may run ahead"), std::string::npos);
}

TEST(ReadRun, mistakes_are_named_with_the_nearest_key) {
  EXPECT_NE(error_of({{"max_async_rollouts", "2"}}).find("unknown key"), std::string::npos);
  EXPECT_EQ(hint_of({{"max_async_rollouts", "2"}}), "did you mean 'max_async_rollout'?");
  EXPECT_EQ(hint_of({{"tensor_model_paralel_size", "2"}}), "did you mean 'tensor_model_parallel_size'?");
  const auto section = read("framework = \"telescope\"\n[lenghts]\nprompt_mean = 1\n");
  ASSERT_FALSE(section.has_value());
  EXPECT_EQ(section.error().hint, "did you mean [lengths]?");
}

TEST(ReadRun, contradictions_are_refused) {
  EXPECT_NE(error_of({{"inference_num_workers", "3"}, {"inference_tensor_parallel_size", "2"}}).find("not divisible"),
            std::string::npos);
  EXPECT_NE(error_of({{"trainer_num_workers", "6"}, {"inference_num_workers", "6"}}).find("more than gpus"),
            std::string::npos);
  EXPECT_NE(error_of({{"placement", "colocated"}}).find("colocated"), std::string::npos);
  EXPECT_NE(error_of({{"completion_mean", "5000"}}).find("more than the longest"), std::string::npos);
  EXPECT_NE(error_of({{"seq_length", "4096"}}).find("follows from the run"), std::string::npos);
  EXPECT_NE(error_of({{"group_size", "0"}}).find("group_size"), std::string::npos);
  EXPECT_NE(error_of({{"gpu_memory_utilization", "1.5"}}).find("gpu_memory_utilization"), std::string::npos);
  EXPECT_NE(error_of({{"prompts_batch_size_for_trainer", "1000000"}, {"group_size", "4000"}}).find("at most"),
            std::string::npos);
  EXPECT_NE(error_of({{"trainer_num_workers", "8"}}).find("no GPU"), std::string::npos);
  EXPECT_NE(error_of({{"engine_version", "new"}}).find("engine_version"), std::string::npos);
}

TEST(ReadRun, a_key_twice_is_refused) {
  const auto run = read("framework = \"telescope\"\nmax_tokens = 10\n[lengths]\nmax_response_length = 12\n");
  ASSERT_FALSE(run.has_value());
  EXPECT_NE(to_string(run.error()).find("given twice"), std::string::npos);
}

TEST(ReadRun, a_version_with_a_zero_stays_that_version) {
  EXPECT_EQ(run_of(with(telescope_settings(), {{"engine_version", "0.20"}})).server.version,
            (inference::Version{0, 20, 0}));
  const auto number = read("framework = \"telescope\"\n[inference]\nversion = 0.20\n");
  ASSERT_FALSE(number.has_value());
  EXPECT_NE(to_string(number.error()).find("wanted text"), std::string::npos);
}

TEST(ReadRun, a_file_cut_anywhere_is_an_answer_or_an_error) {
  for (std::size_t length = 0; length <= kFile.size(); ++length) {
    const auto run = read(kFile.substr(0, length));
    if (!run) {
      EXPECT_FALSE(run.error().message.empty()) << length;
    }
  }
}

TEST(Histogram, lines_are_lengths_and_counts) {
  const auto counts = parse_histogram("# tokens count\n200 2\n100\t1\n\n200,3\n50 0\n200\n");
  ASSERT_TRUE(counts.has_value());
  const std::vector<std::pair<std::int64_t, std::int64_t>> wanted = {{100, 1}, {200, 6}};
  EXPECT_EQ(*counts, wanted);
}

TEST(Histogram, what_is_no_histogram_is_refused) {
  for (const char* text : {"", "abc", "100 x", "-5 3", "0 3", "100 -1", "100 99999999999999999999", "10 0\n"})
    EXPECT_FALSE(parse_histogram(text).has_value()) << text;
}

TEST(Keys, all_have_a_section_that_a_file_may_have_and_a_meaning) {
  for (const Key& key : key_table()) {
    EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_FALSE(type_name(key).empty()) << key.name;
    EXPECT_EQ(find_key(key.name), &key);
  }
}

}  // namespace
}  // namespace plimsoll::rl
