// SPDX-License-Identifier: Apache-2.0
#include "job/request.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/keys.h"

namespace plimsoll::job {
namespace {

constexpr const char* kJob = R"(
framework = "megatron-lm"
model = "llama3-8b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 16
[parallel]
tensor_model_parallel_size = 2
[batch]
seq_length = 4096
micro_batch_size = 2
global_batch_size = 32
)";

Request request_of(const std::string& text, const ReadOptions& options = {}) {
  return read_request({{"job.toml", text}}, options).value();
}

const KeyOrigin& origin_of(const std::vector<KeyOrigin>& all, std::string_view key) {
  return *std::find_if(all.begin(), all.end(), [key](const KeyOrigin& one) { return one.key == key; });
}

TEST(Request, with_makes_another_request_and_leaves_the_first) {
  const Request asked = request_of(kJob);
  const Request wider = asked.with("tensor_model_parallel_size", "4");
  EXPECT_EQ(resolve(asked)->parallel.tensor, 2);
  EXPECT_EQ(resolve(wider)->parallel.tensor, 4);
}

TEST(Request, with_replaces_a_flag_under_any_of_its_names) {
  ReadOptions options;
  options.overrides = {{"per_device_train_batch_size", "4"}};
  const Request asked = request_of(kJob, options).with("micro_batch_size", "1");
  EXPECT_EQ(resolve(asked)->batch.micro_batch, 1);
  EXPECT_EQ(asked.options().overrides.size(), 1U);
}

TEST(Request, model_gpu_and_framework_are_keys_like_others) {
  const Request asked = request_of(kJob).with(
      {{"model", "llama3-70b"}, {"gpu", "h200"}, {"gpus", "32"}, {"framework", "megatron-bridge"}});
  const auto job = resolve(asked);
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->model.name, "llama3-70b");
  EXPECT_EQ(job->cluster.gpus, 32);
  EXPECT_THAT(job->cluster.gpu.id, testing::HasSubstr("h200"));
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
}

TEST(Request, a_varied_job_is_the_job_that_was_asked_for_so_in_the_first_place) {
  std::string text = kJob;
  const auto at = text.find("micro_batch_size = 2");
  const Job written = *resolve(request_of(text.replace(at, 20, "micro_batch_size = 1")));
  const Job varied = *resolve(request_of(kJob).with("micro_batch_size", "1"));
  for (const std::string& key : key_names()) {
    const auto a = value_of(written, key);
    const auto b = value_of(varied, key);
    ASSERT_EQ(a.has_value(), b.has_value()) << key;
    if (!a) continue;
    EXPECT_EQ(document::to_text(*a), document::to_text(*b)) << key;
  }
  EXPECT_EQ(written.micro_batches, varied.micro_batches);
}

TEST(Request, values_that_cannot_be_used_are_errors_of_resolving) {
  for (const auto& [key, value] : Settings{{"gpus", "many"},
                                           {"model", "no-such-model"},
                                           {"framework", "jax"},
                                           {"tensor_model_parallel_size", "0"},
                                           {"no_such_key", "1"}}) {
    const auto job = resolve(request_of(kJob).with(key, value));
    EXPECT_FALSE(job) << key;
  }
}

TEST(Request, a_model_that_was_not_found_can_be_replaced) {
  const Request lost = request_of(kJob).with("model", "no-such-model");
  EXPECT_TRUE(resolve(lost.with("model", "llama3-8b")));
}

TEST(Origins, name_the_file_the_flag_and_the_framework) {
  const Request asked = request_of(kJob).with("micro_batch_size", "1");
  const Job job = *resolve(asked);
  const auto all = origins(asked, job);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), key_names().size());
  EXPECT_EQ(origin_of(*all, "micro_batch_size").origin.kind, OriginKind::kSetting);
  EXPECT_EQ(origin_of(*all, "micro_batch_size").value, "1");
  EXPECT_EQ(origin_of(*all, "tensor_model_parallel_size").origin.kind, OriginKind::kFile);
  EXPECT_THAT(origin_of(*all, "tensor_model_parallel_size").origin.where, testing::HasSubstr("job.toml"));
  EXPECT_EQ(origin_of(*all, "context_parallel_size").origin.kind, OriginKind::kDefault);
  EXPECT_EQ(origin_of(*all, "attention_backend").origin.kind, OriginKind::kDefault) << "no plain field";
}

}  // namespace
}  // namespace plimsoll::job
