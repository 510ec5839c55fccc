// SPDX-License-Identifier: Apache-2.0
#include "plan/space.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "job/pipeline_layout.h"
#include "plan/layouts.h"
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
  ASSERT_FALSE(space.activations.empty());
  for (const Variant& variant : space.activations)
    EXPECT_EQ(variant.recompute.granularity, job::RecomputeGranularity::kNone) << variant.label;
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
  const auto key = [](const Candidate& c) { return c.key(); };
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
  std::set<std::int64_t> chunks_of_16_stages;
  for (const Candidate& c : splits_of(make_space(job, {}), job)) {
    ASSERT_EQ(c.writes_layout(), c.pipeline > 1);
    if (c.pipeline * c.virtual_pipeline == 16) chunks_of_16_stages.insert(c.virtual_pipeline);
  }
  EXPECT_EQ(chunks_of_16_stages, (std::set<std::int64_t>{1, 2, 4, 8}));
  // The layout of the published recipes: two losses, and an embedding that weighs nothing.
  EXPECT_EQ(layout_text(LayoutChoice::kLossCounts, job.model, 16),
            "Etttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tttt|tmL");
}

std::vector<std::string> labels_of(const std::vector<Variant>& variants) {
  std::vector<std::string> labels;
  for (const Variant& variant : variants) labels.push_back(variant.label);
  return labels;
}

TEST(Space, has_zero_stages_and_the_host_to_choose_in_deepspeed) {
  const job::Job job = job_of("llama3-8b", 8, {{"seq_length", "4096"}, {"zero_stage", "2"}}, "h100-sxm-80gb",
                              job::Framework::kDeepSpeed);
  EXPECT_EQ(labels_of(make_space(job, {}).states),
            (std::vector<std::string>{"ZeRO 1", "ZeRO 1, optimizer on the host", "ZeRO 2",
                                      "ZeRO 2, optimizer on the host", "ZeRO 3", "ZeRO 3, optimizer on the host",
                                      "ZeRO 3, optimizer and weights on the host"}));
  EXPECT_EQ(labels_of(make_space(job, {"zero_stage", "offload_optimizer_device"}).states),
            std::vector<std::string>{"ZeRO 2"});
}

TEST(Space, has_replicas_to_choose_in_fsdp_across_nodes) {
  const job::Job job = job_of("llama3-8b", 32, {{"seq_length", "4096"}, {"global_batch_size", "32"}}, "h100-sxm-80gb",
                              job::Framework::kFsdp2);
  EXPECT_EQ(labels_of(make_space(job, {"reshard_after_forward"}).states),
            (std::vector<std::string>{"fully sharded", "2 replicas", "4 replicas"}));
  EXPECT_EQ(make_space(job, {"dp_replicate"}).states.size(), 2U) << "weights kept gathered or not";
}

TEST(Space, moves_the_precision_aware_optimizer_only_in_megatron_lm) {
  for (const auto framework : {job::Framework::kMegatronLm, job::Framework::kMegatronBridge}) {
    const job::Job job = job_of("llama3-8b", 8, {{"seq_length", "4096"}, {"use_distributed_optimizer", "true"}},
                                "h100-sxm-80gb", framework);
    std::size_t moved = 0;
    for (const Variant& state : make_space(job, {}).states) {
      if (!state.asked.optimizer_cpu_offload) continue;
      ++moved;
      EXPECT_EQ(state.optimizer.precision_aware, framework == job::Framework::kMegatronLm) << "R221";
    }
    EXPECT_GT(moved, 0U);
  }
}

TEST(Space, chooses_the_partner_of_a_pinned_key) {
  const auto labels = [](const test::Keys& keys, const Pins& pinned) {
    return labels_of(make_space(llama_70b(keys), pinned).activations);
  };
  EXPECT_EQ(labels({{"recompute_modules", "mlp,layernorm"}}, {"recompute_modules"}),
            std::vector<std::string>{"layernorm,mlp"});
  EXPECT_EQ(labels({{"recompute_num_layers", "3"}}, {"recompute_num_layers"}),
            (std::vector<std::string>{"block 3", "full"}));
  EXPECT_EQ(labels({{"cpu_offloading_num_layers", "3"}}, {"cpu_offloading_num_layers"}),
            std::vector<std::string>{"offload 3 layers"});
  EXPECT_EQ(labels({{"offload_modules", "core_attn"}}, {"offload_modules"}),
            std::vector<std::string>{"offload core_attn"});
  for (const Variant& state :
       make_space(llama_70b({{"optimizer_offload_fraction", "0.25"}}), {"optimizer_offload_fraction"}).states)
    EXPECT_EQ(state.asked.optimizer_offload_fraction, 0.25) << state.label;
}

TEST(Space, rounds_differently_only_when_asked) {
  const job::Job job = llama_70b({{"fp8", "hybrid"}, {"fp8_recipe", "tensorwise"}});
  for (const Variant& state : make_space(job, {}).states) {
    EXPECT_TRUE(state.optimizer.grad_reduce_in_fp32);
    EXPECT_FALSE(state.precision.fp8_param_gather);
  }
  const std::vector<Variant> all = make_space(job, {}, {.changes_numbers = true}).states;
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Variant& v) { return !v.optimizer.grad_reduce_in_fp32; }));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Variant& v) { return v.precision.fp8_param_gather; }));
}

}  // namespace
}  // namespace plimsoll::plan
