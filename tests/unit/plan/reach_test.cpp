// SPDX-License-Identifier: Apache-2.0
// What a search must reach and keep: modules, chunks of written-out layouts, every pin.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "plan/support.h"

namespace plimsoll::plan {
namespace {

using test::job_of;
using test::llama_70b;
using test::plan_of;

TEST(Search, prices_selective_recomputation) {
  const job::Job job = llama_70b();
  const Space space = make_space(job, {});
  const auto mlp = std::find_if(space.activations.begin(), space.activations.end(),
                                [](const Variant& variant) { return variant.label == "mlp"; });
  ASSERT_NE(mlp, space.activations.end());
  Candidate c;
  c.tensor = 8;
  c.pipeline = 4;
  c.activations = static_cast<std::int16_t>(mlp - space.activations.begin());
  const auto priced = price(job, space, c);
  ASSERT_TRUE(priced) << to_string(priced.error());
  EXPECT_GT(priced->seconds, 0);
}

TEST(Search, prices_every_state_somewhere) {
  const job::Job job = llama_70b();
  const Space space = make_space(job, {});
  std::set<std::int16_t> priced;
  for_each_split(space, job, [&](const Candidate& c) {
    if (!priced.contains(c.state) && price(job, space, c)) priced.insert(c.state);
  });
  EXPECT_EQ(priced.size(), space.states.size());
  EXPECT_TRUE(std::any_of(space.states.begin(), space.states.end(),
                          [](const Variant& state) { return state.asked.optimizer_cpu_offload; }));
}

TEST(Search, prices_every_way_to_keep_activations_somewhere) {
  for (const char* model : {"llama3-8b", "qwen3-30b-a3b", "deepseek-v3"}) {
    const job::Job job = job_of(model, 64, {{"seq_length", "4096"}, {"global_batch_size", "256"}});
    const Space space = make_space(job, {});
    std::set<std::int16_t> priced;
    for_each_split(space, job, [&](const Candidate& split) {
      if (split.state > 0 || priced.size() == space.activations.size()) return;
      for_each_point(space, job, split, [&](const Candidate& c) {
        if (!priced.contains(c.activations) && price(job, space, c)) priced.insert(c.activations);
      });
    });
    for (std::size_t i = 0; i < space.activations.size(); ++i)
      EXPECT_TRUE(priced.contains(static_cast<std::int16_t>(i))) << model << ": " << space.activations[i].label;
  }
}

TEST(Search, prices_written_out_layouts_with_chunks) {
  const job::Job job = job_of("deepseek-v3", 1024, {{"seq_length", "4096"}, {"global_batch_size", "8192"}});
  const Space space = make_space(job, {});
  EXPECT_GT(std::count(space.virtual_pipeline.begin(), space.virtual_pipeline.end(), 4), 0) << "16 stages over PP 4";
  Candidate c;
  c.tensor = 2;
  c.pipeline = 16;
  c.virtual_pipeline = 2;
  c.expert = 8;
  c.layout = LayoutChoice::kBalanced;
  const auto priced = price(job, space, c);
  EXPECT_TRUE(priced) << to_string(priced.error());
}

TEST(Search, keeps_pinned_sequence_parallelism) {
  const job::Job job = llama_70b({{"tensor_model_parallel_size", "8"}, {"sequence_parallel", "false"}});
  for (const Found& found : plan_of(job, {"tensor_model_parallel_size", "sequence_parallel"}, 3).best)
    EXPECT_FALSE(found.job.parallel.sequence_parallel);
}

TEST(Search, keeps_a_pinned_number_of_recomputed_layers) {
  const job::Job job =
      llama_70b({{"recompute_num_layers", "4"}, {"recompute_granularity", "full"}, {"recompute_method", "block"}});
  for (const Found& found : plan_of(job, {"recompute_num_layers"}, 20).best)
    if (found.job.recompute.granularity == job::RecomputeGranularity::kFull) {
      EXPECT_EQ(found.job.recompute.num_layers, 4);
    }
  const job::Job every = llama_70b({{"tensor_model_parallel_size", "8"}, {"pipeline_model_parallel_size", "4"}});
  const Space space = make_space(every, {"recompute_num_layers"});
  for (const Variant& variant : space.activations)
    if (variant.recompute.granularity == job::RecomputeGranularity::kFull) {
      EXPECT_EQ(variant.recompute.num_layers, 1) << variant.label;
    }
}

}  // namespace
}  // namespace plimsoll::plan
