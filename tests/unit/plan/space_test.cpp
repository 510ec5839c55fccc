// SPDX-License-Identifier: Apache-2.0
#include "plan/space.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "job/pipeline_layout.h"
#include "plan/support.h"

namespace plimsoll::plan {
namespace {

using test::job_of;
using test::llama_70b;
using test::llama_8b;

std::vector<Candidate> splits_of(const Space& space, const job::Job& job) {
  std::vector<Candidate> splits;
  for_each_split(space, job, [&splits](const Candidate& c) { splits.push_back(c); });
  return splits;
}

// Layers in each stage of a layout: the number of t between its bars.
std::vector<std::int64_t> layers_by_stage(const std::string& layout) {
  std::vector<std::int64_t> layers = {0};
  for (const char c : layout) {
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
  }
  return layers;
}

TEST(BalancedLayout, holds_every_layer_once) {
  for (std::int64_t layers = 1; layers <= 130; ++layers)
    for (const std::int64_t mtp : {0, 1})
      for (std::int64_t stages = 2; stages <= layers; ++stages) {
        const std::string layout = balanced_layout(layers, mtp, stages);
        if (layout.empty()) continue;
        const std::vector<std::int64_t> by_stage = layers_by_stage(layout);
        ASSERT_EQ(by_stage.size(), static_cast<std::size_t>(stages)) << layout;
        std::int64_t sum = 0;
        for (const std::int64_t here : by_stage) sum += here;
        ASSERT_EQ(sum, layers) << layout;
        ASSERT_EQ(std::count(layout.begin(), layout.end(), 'm'), mtp) << layout;
        ASSERT_EQ(layout.front(), 'E');
        ASSERT_EQ(layout.back(), 'L');
      }
}

TEST(BalancedLayout, differs_by_at_most_one_with_its_ends_counted) {
  for (std::int64_t layers = 2; layers <= 130; ++layers)
    for (std::int64_t stages = 2; stages <= layers; ++stages) {
      const std::string layout = balanced_layout(layers, 0, stages);
      if (layout.empty()) continue;
      std::vector<std::int64_t> units = layers_by_stage(layout);
      ++units.front();
      ++units.back();
      const auto [least, most] = std::minmax_element(units.begin(), units.end());
      ASSERT_LE(*most - *least, 1) << layout;
    }
}

TEST(BalancedLayout, is_none_where_stages_outnumber_what_there_is) { EXPECT_EQ(balanced_layout(4, 1, 16), ""); }

TEST(BalancedLayout, is_read_back_as_a_layout_of_the_model) {
  job::Job job = job_of("deepseek-v3", 64, {{"seq_length", "4096"}, {"global_batch_size", "64"}});
  job.parallel.pipeline = 8;
  job.parallel.layout = balanced_layout(job.model.depth(), job.model.mtp_layers, 8);
  ASSERT_TRUE(job::complete(job));
  const auto layout = job::pipeline_layout(job);
  ASSERT_TRUE(layout) << to_string(layout.error());
}

TEST(Space, keeps_what_is_pinned) {
  const job::Job job = llama_70b({{"tensor_model_parallel_size", "4"},
                                  {"pipeline_model_parallel_size", "4"},
                                  {"virtual_pipeline_model_parallel_size", "5"},
                                  {"context_parallel_size", "2"},
                                  {"sequence_parallel", "true"}});
  const Space space =
      make_space(job, {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
                       "virtual_pipeline_model_parallel_size", "micro_batch_size", "recompute_granularity"});
  EXPECT_EQ(space.tensor, std::vector<std::int64_t>{4});
  EXPECT_EQ(space.pipeline, std::vector<std::int64_t>{4});
  EXPECT_EQ(space.virtual_pipeline, std::vector<std::int64_t>{5});
  EXPECT_EQ(space.context, std::vector<std::int64_t>{2});
  EXPECT_EQ(space.micro_batch, std::vector<std::int64_t>{1});
  ASSERT_EQ(space.recompute.size(), 1U);
  EXPECT_EQ(space.recompute[0].granularity, job::RecomputeGranularity::kNone);
}

TEST(Space, leaves_the_layout_alone_once_a_key_of_it_is_pinned) {
  for (const char* key :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"})
    EXPECT_TRUE(make_space(llama_70b(), {key}).keeps_layout) << key;
  EXPECT_FALSE(make_space(llama_70b(), {}).keeps_layout);
}

TEST(Space, has_no_expert_sizes_for_a_dense_model) {
  const Space space = make_space(llama_70b(), {});
  EXPECT_EQ(space.expert, std::vector<std::int64_t>{1});
  EXPECT_EQ(space.expert_tensor.size(), 1U);
}

TEST(Space, splits_only_what_divides_the_gpus) {
  const job::Job job = llama_70b();
  const Space space = make_space(job, {});
  const std::vector<Candidate> splits = splits_of(space, job);
  EXPECT_GT(splits.size(), 100U);
  for (const Candidate& c : splits) {
    ASSERT_EQ(32 % (c.tensor * c.pipeline * c.context), 0);
    ASSERT_TRUE(c.pipeline > 1 || c.virtual_pipeline == 1);
  }
}

TEST(Space, visits_no_split_twice) {
  const job::Job job = job_of("qwen3-30b-a3b", 16, {{"seq_length", "4096"}, {"global_batch_size", "64"}});
  const Space space = make_space(job, {});
  std::vector<Candidate> splits = splits_of(space, job);
  const auto key = [](const Candidate& c) {
    return std::make_tuple(c.tensor, c.pipeline, c.virtual_pipeline, c.context, c.expert, c.expert_tensor, c.layout,
                           c.context_messages, c.tensor_overlap, c.optimizer_offload);
  };
  std::sort(splits.begin(), splits.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  EXPECT_EQ(
      std::adjacent_find(splits.begin(), splits.end(), [&](const auto& a, const auto& b) { return key(a) == key(b); }),
      splits.end());
}

TEST(Space, counts_the_ends_of_126_layers) {
  const job::Job job = job_of("llama3.1-405b", 1024, {{"seq_length", "8192"}, {"global_batch_size", "1024"}});
  std::size_t sixteen_stages = 0;
  for (const Candidate& c : splits_of(make_space(job, {}), job)) {
    if (c.pipeline * c.virtual_pipeline != 16 || c.pipeline == 1) continue;
    ++sixteen_stages;
    EXPECT_EQ(c.layout, LayoutChoice::kEndsCount) << "128 = 126 + 2 divides into 16, 126 does not";
  }
  EXPECT_GT(sixteen_stages, 0U);
}

TEST(Space, balances_61_layers_and_the_mtp_layer) {
  const job::Job job = job_of("deepseek-v3", 1024, {{"seq_length", "4096"}, {"global_batch_size", "8192"}});
  EXPECT_EQ(job.model.depth(), 61);
  EXPECT_EQ(job.model.mtp_layers, 1);
  for (const Candidate& c : splits_of(make_space(job, {}), job))
    ASSERT_EQ(c.layout, c.pipeline == 1 ? LayoutChoice::kEven : LayoutChoice::kBalanced);
}

TEST(Space, has_a_zero_stage_to_choose_only_in_deepspeed) {
  EXPECT_EQ(make_space(llama_8b(), {}).stages, std::vector<std::int64_t>{-1});
  const job::Job job = job_of("llama3-8b", 8, {{"seq_length", "4096"}, {"zero_stage", "2"}}, "h100-sxm-80gb",
                              job::Framework::kDeepSpeed);
  EXPECT_EQ(make_space(job, {}).stages, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(make_space(job, {"zero_stage"}).stages, std::vector<std::int64_t>{-1});
}

}  // namespace
}  // namespace plimsoll::plan
