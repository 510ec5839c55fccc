// SPDX-License-Identifier: Apache-2.0
// What is emitted reads back as the same job.
#include <gtest/gtest.h>

#include "base/file.h"
#include "emit/emit.h"
#include "emit/settings.h"
#include "job/keys.h"
#include "job/read.h"
#include "property/random_job.h"

namespace plimsoll::emit {
namespace {

std::string text_of(const Error& error) { return to_string(error); }

job::InputFile example(const std::string& name) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/examples/" + name;
  return {path, read_file(path).value()};
}

job::Job read_examples(const std::vector<std::string>& names, job::ReadOptions options = {}) {
  std::vector<job::InputFile> files;
  files.reserve(names.size());
  for (const std::string& name : names) files.push_back(example(name));
  auto job = job::read_job(files, options);
  EXPECT_TRUE(job.has_value()) << (job ? "" : text_of(job.error()));
  return job ? *std::move(job) : job::Job{};
}

job::Job read_back(const std::vector<File>& files) {
  std::vector<job::InputFile> inputs;
  for (const std::string& name : readable_files(files))
    for (const File& file : files)
      if (file.name == name) inputs.push_back({file.name, file.text});
  auto job = job::read_job(inputs, {});
  EXPECT_TRUE(job.has_value()) << (job ? "" : text_of(job.error()));
  return job ? *std::move(job) : job::Job{};
}

std::string all_text(const std::vector<File>& files) {
  std::string text;
  for (const File& file : files) text += "== " + file.name + "\n" + file.text;
  return text;
}

// Every key of a plain field and all that the comparison of emit() itself looks at.
void expect_same(const job::Job& a, const job::Job& b, bool same_model_form) {
  EXPECT_EQ(differing_keys(a, b), std::vector<std::string>{});
  std::map<std::string, std::string> sections;
  for (const job::KeyInfo& info : job::key_table()) sections[info.name] = info.section;
  for (const std::string& key : job::key_names()) {
    if (sections[key] == "model" && !same_model_form) continue;
    if (!meant_value(a, key) || meant_value(a, key)->is_null()) continue;
    const auto left = job::value_of(a, key);
    const auto right = job::value_of(b, key);
    const bool is_compared_below =
        key == "sequence_parallel" || key == "expert_tensor_parallel_size" || key == "fp8_recipe";
    if (!left || left->is_null() || is_compared_below) continue;
    EXPECT_EQ(document::to_text(*left), document::to_text(*right)) << key;
  }
  EXPECT_EQ(a.parallel.sequence_parallel, b.parallel.sequence_parallel);
  EXPECT_EQ(a.expert_tensor(), b.expert_tensor());
  EXPECT_EQ(a.precision.fp8, b.precision.fp8);
  EXPECT_EQ(a.cluster.gpu.id, b.cluster.gpu.id);
  EXPECT_EQ(a.cluster.gpus, b.cluster.gpus);
  EXPECT_EQ(a.vocab_rows, b.vocab_rows);
  EXPECT_EQ(a.micro_batches, b.micro_batches);
  EXPECT_EQ(a.data_parallel, b.data_parallel);
  for (const auto& [name, value] : a.environment)
    EXPECT_TRUE(b.environment.contains(name) && b.environment.at(name) == value) << name;
}

void expect_round_trip(const job::Job& job, Target target) {
  const auto files = emit(job, target, {});
  ASSERT_TRUE(files.has_value()) << text_of(files.error());
  SCOPED_TRACE(all_text(*files));
  expect_same(job, read_back(*files), false);
}

job::ReadOptions on(const std::string& gpu, std::int64_t gpus) {
  job::ReadOptions options;
  options.gpu = gpu;
  options.gpus = gpus;
  return options;
}

TEST(RoundTrip, job_file_example) {
  const job::Job job = read_examples({"llama3-70b.toml"});
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
}

TEST(RoundTrip, megatron_lm_example) {
  const job::Job job = read_examples({"megatron-lm/llama3-8b.sh"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
}

TEST(RoundTrip, megatron_bridge_example) {
  const job::Job job = read_examples({"megatron-bridge/overrides.py"}, on("h100", 64));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
}

TEST(RoundTrip, transformers_example) {
  const job::Job job =
      read_examples({"transformers/config.json", "transformers/training_args.json"}, on("a100-sxm-80gb", 8));
  expect_round_trip(job, Target::kJob);
}

TEST(RoundTrip, deepspeed_example) {
  const job::Job job = read_examples(
      {"transformers/config.json", "transformers/training_args.json", "transformers/ds_zero3.json"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
}

TEST(RoundTrip, fsdp_example) {
  const job::Job job = read_examples(
      {"transformers/config.json", "transformers/training_args.json", "transformers/accelerate_fsdp.yaml"},
      on("h100", 8));
  expect_round_trip(job, Target::kJob);
}

TEST(RoundTrip, torchtitan_example) {
  const job::Job job = read_examples({"torchtitan/llama3-8b.toml"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
}

// Random draws whose model Megatron's keys can describe.
std::optional<job::Job> expressible(std::uint64_t seed) {
  auto job = testing::random_megatron_job(seed);
  if (!job) return std::nullopt;
  job->model.embedding_dropout = job->model.hidden_dropout;
  for (model::Layer& kind : job->model.kinds) {
    if (kind.ffn.is_moe()) kind.ffn.width = 0;
    if (!kind.ffn.gated) kind.ffn.activation = model::Activation::kGelu;
  }
  if (!job::complete(*job)) return std::nullopt;
  return job;
}

// How many of the random jobs a target carries; each one that it does not must name a key.
void expect_random_round_trips(Target target, int at_least) {
  int carried = 0;
  int drawn = 0;
  std::map<std::string, int> refused;
  for (std::uint64_t seed = 1; drawn < 60; ++seed) {
    const auto job = expressible(seed);
    if (!job) continue;
    ++drawn;
    const auto files = emit(*job, target, {});
    if (!files) {
      ++refused[text_of(files.error())];
      continue;
    }
    ++carried;
    SCOPED_TRACE(all_text(*files));
    expect_same(*job, read_back(*files), false);
  }
  std::string why;
  for (const auto& [message, count] : refused) why += std::to_string(count) + " x " + message + "\n";
  EXPECT_GE(carried, at_least) << why;
}

TEST(RoundTrip, random_megatron_jobs_as_job_files) { expect_random_round_trips(Target::kJob, 50); }
TEST(RoundTrip, random_megatron_jobs_as_launch_scripts) { expect_random_round_trips(Target::kMegatronLm, 25); }

}  // namespace
}  // namespace plimsoll::emit
