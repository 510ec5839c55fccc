// SPDX-License-Identifier: Apache-2.0
#include "job/pipeline_layout.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

Job job_with(std::int64_t layers, std::int64_t pipeline, std::int64_t chunks) {
  Job job;
  job.model.layers.assign(static_cast<std::size_t>(layers), 0);
  job.parallel.pipeline = pipeline;
  job.parallel.virtual_pipeline = chunks;
  return job;
}

std::string message(const Result<PipelineLayout>& layout) { return layout ? "no error" : layout.error().message; }

// "rank: first+count ..." for every chunk, E and L where they are.
std::string shape(const PipelineLayout& layout) {
  std::string text;
  for (const auto& rank : layout.ranks) {
    for (const Chunk& chunk : rank) {
      if (chunk.has_embedding) text += "E";
      text += std::to_string(chunk.first_layer) + "+" + std::to_string(chunk.num_layers);
      if (chunk.mtp_layers > 0) text += "m" + std::to_string(chunk.mtp_layers);
      if (chunk.has_loss) text += "L";
      text += " ";
    }
    text += "| ";
  }
  return text;
}

TEST(PipelineLayout, one_rank_holds_everything) {
  const auto layout = pipeline_layout(job_with(8, 1, 1));

  ASSERT_TRUE(layout);
  EXPECT_EQ(shape(*layout), "E0+8L | ");
}

TEST(PipelineLayout, chunks_are_dealt_in_stage_order) {
  const auto layout = pipeline_layout(job_with(8, 2, 2));

  ASSERT_TRUE(layout);
  EXPECT_EQ(shape(*layout), "E0+2 4+2 | 2+2 6+2L | ");
}

TEST(PipelineLayout, mtp_layers_sit_with_the_loss) {
  Job job = job_with(8, 2, 1);
  job.model.mtp_layers = 1;

  const auto layout = pipeline_layout(job);

  ASSERT_TRUE(layout);
  EXPECT_EQ(shape(*layout), "E0+4 | 4+4m1L | ");
}

TEST(PipelineLayout, accounting_for_embedding_and_loss_takes_one_layer_each) {
  Job job = job_with(6, 2, 2);
  job.parallel.account_for_embedding = job.parallel.account_for_loss = true;

  const auto layout = pipeline_layout(job);

  ASSERT_TRUE(layout);
  EXPECT_EQ(shape(*layout), "E0+1 3+2 | 1+2 5+1L | ");
}

TEST(PipelineLayout, fixed_first_and_last_stages_leave_the_rest_even) {
  Job job = job_with(12, 4, 1);
  job.parallel.layers_in_first_stage = 2;
  job.parallel.layers_in_last_stage = 2;

  const auto layout = pipeline_layout(job);

  ASSERT_TRUE(layout);
  EXPECT_EQ(shape(*layout), "E0+2 | 2+4 | 6+4 | 10+2L | ");
}

TEST(PipelineLayout, layout_strings_expand_as_megatron_writes_them) {
  const auto stages = expand_layout("Et*3|(tt|)*3,m|L");

  ASSERT_TRUE(stages);
  EXPECT_EQ(*stages, (std::vector<std::string>{"Ettt", "tt", "tt", "tt", "m", "L"}));
}

TEST(PipelineLayout, deepseek_layout_of_sixteen_ranks_holds_every_layer) {
  Job job = job_with(61, 16, 2);
  job.model.mtp_layers = 1;
  job.parallel.layout = "Et*3|(tt|)*29,m|L";

  const auto layout = pipeline_layout(job);

  ASSERT_TRUE(layout) << message(layout);
  EXPECT_EQ(layout->ranks.front().front(), (Chunk{0, 3, true, false, 0}));
  EXPECT_EQ(layout->ranks[14].back(), (Chunk{61, 0, false, false, 1}));
  EXPECT_EQ(layout->ranks[15].back(), (Chunk{61, 0, false, true, 0}));
}

TEST(PipelineLayout, every_layout_holds_every_layer_once) {
  for (const std::int64_t pipeline : {1, 2, 4, 8}) {
    for (const std::int64_t chunks : {1, 2, 5}) {
      const auto layout = pipeline_layout(job_with(80, pipeline, chunks));

      ASSERT_TRUE(layout) << pipeline << " " << chunks;
      std::int64_t layers = 0;
      for (const auto& rank : layout->ranks)
        for (const Chunk& chunk : rank) layers += chunk.num_layers;
      EXPECT_EQ(layers, 80);
    }
  }
}

TEST(PipelineLayout, layers_that_do_not_divide_are_refused) {
  EXPECT_EQ(message(pipeline_layout(job_with(10, 4, 1))), "R035");
  EXPECT_EQ(message(pipeline_layout(job_with(12, 4, 2))), "R036");
}

TEST(PipelineLayout, impossible_uneven_stages_are_refused) {
  Job job = job_with(12, 2, 1);
  job.parallel.layers_in_first_stage = 2;
  job.parallel.layers_in_last_stage = 2;
  EXPECT_EQ(message(pipeline_layout(job)), "R050");

  job.parallel.layers_in_last_stage = 0;
  EXPECT_EQ(message(pipeline_layout(job)), "R047");

  job = job_with(12, 4, 1);
  job.parallel.layers_in_first_stage = 2;
  EXPECT_EQ(message(pipeline_layout(job)), "R049");

  job.parallel.layers_in_first_stage = 3;
  job.parallel.account_for_loss = true;
  EXPECT_EQ(message(pipeline_layout(job)), "R046");
}

TEST(PipelineLayout, wrong_layout_strings_are_refused) {
  struct Case {
    const char* layout;
    const char* message;
  };
  for (const Case& c :
       {Case{"tt|ttL", "R056"}, Case{"Ett|tt", "R056"}, Case{"EEtt|ttL", "R056"}, Case{"Ett|tL", "R057"},
        Case{"Ett|ttmL", "R057"}, Case{"Ett|t|tL", "R054"}, Case{"Etx|ttL", "'x'"}, Case{"E(tt|ttL", "'(' without ')'"},
        Case{"Ett)|ttL", "')' without '('"}, Case{"Et*|tttL", "number after '*'"},
        Case{"Et*99999999999|L", "number after '*'"}, Case{"E(t*1000)*1000000|L", "beyond any model"}}) {
    Job job = job_with(4, 2, 1);
    job.parallel.layout = c.layout;

    EXPECT_NE(message(pipeline_layout(job)).find(c.message), std::string::npos)
        << c.layout << ": " << message(pipeline_layout(job));
  }
}

TEST(PipelineLayout, mtp_layers_have_their_place) {
  Job job = job_with(4, 2, 2);
  job.model.mtp_layers = 1;
  for (const char* layout : {"Etm|t|t|tL", "Et|tt|tm|L", "Et|ttm|t|L"}) {
    job.parallel.layout = layout;
    EXPECT_FALSE(pipeline_layout(job)) << layout;
  }
  job.parallel.layout = "Et|t|tt|mL";
  EXPECT_TRUE(pipeline_layout(job)) << message(pipeline_layout(job));
}

TEST(PipelineLayout, deep_parentheses_are_refused) { EXPECT_FALSE(expand_layout(std::string(100'000, '('))); }

}  // namespace
}  // namespace plimsoll::job
