// SPDX-License-Identifier: Apache-2.0
// Megatron's hybrid models: what a pattern says, what contradicts it, and the model that follows.
#include <gtest/gtest.h>

#include "job/hybrid_model.h"
#include "job/hybrid_pattern.h"
#include "job/pipeline_layout.h"
#include "model/parameters.h"
#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;

std::string text_of(const Result<HybridPattern>& pattern) { return pattern ? "" : to_string(pattern.error()); }
std::string text_of(const Result<Job>& job) { return job ? "" : to_string(job.error()); }

// Flags of a small model beside its pattern.
Result<Job> job_of(std::vector<std::pair<std::string, std::string>> more, std::int64_t gpus = 8) {
  std::vector<std::pair<std::string, std::string>> keys = {{"hidden_size", "512"},
                                                           {"num_attention_heads", "8"},
                                                           {"group_query_attention", "true"},
                                                           {"num_query_groups", "2"},
                                                           {"vocab_size", "32000"},
                                                           {"position_embedding_type", "none"},
                                                           {"max_position_embeddings", "1024"},
                                                           {"seq_length", "1024"},
                                                           {"micro_batch_size", "1"},
                                                           {"global_batch_size", "64"},
                                                           {"bf16", "true"}};
  for (auto& pair : more) keys.push_back(std::move(pair));
  ReadOptions options = on("h100", gpus, std::move(keys));
  options.framework = Framework::kMegatronLm;
  return read_job({}, options);
}

TEST(HybridPattern, has_a_symbol_per_layer_and_separators_for_stages_and_mtp) {
  const auto plain = parse_hybrid_pattern("M*M-E");
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, (HybridPattern{"M*M-E", {5}, "", 0}));
  EXPECT_EQ(parse_hybrid_pattern("M-M-|M-M*-/MM/MM").value(), (HybridPattern{"M-M-M-M*-", {4, 5}, "MM", 2}));
  EXPECT_EQ(parse_hybrid_pattern("MM||M/").value(), (HybridPattern{"MMM", {2, 0, 1}, "", 0}));
}

TEST(HybridPattern, that_is_none_says_why) {
  struct Case {
    const char* pattern;
    const char* says;
  };
  for (const Case& c : {Case{"MxM", "'x' is not a layer"}, Case{"M|M/M|M", "'|' is not a layer"},
                        Case{"", "names no layer"}, Case{"|", "names no layer"}, Case{"/MM", "names no layer"},
                        Case{"M/M/*", "must be identical"}, Case{"M*+", "both Attention and MLA"},
                        Case{"MG", "gated delta nets"}, Case{"MD", "sparse attention"}, Case{"M\n*", "is not a layer"}})
    EXPECT_NE(text_of(parse_hybrid_pattern(c.pattern)).find(c.says), std::string::npos)
        << c.pattern << ": " << text_of(parse_hybrid_pattern(c.pattern));
  EXPECT_NE(text_of(parse_hybrid_pattern(std::string(1'000'000, 'M'))).find("more than any model"), std::string::npos);
}

TEST(HybridPattern, of_ratios_spreads_attention_between_mixers_and_mlps_in_their_place) {
  EXPECT_EQ(pattern_of_ratios(10, 0, 0), "MMMMMMMMMM");
  EXPECT_EQ(pattern_of_ratios(10, 0.2, 0), "MMM*MM*MMM");
  EXPECT_EQ(pattern_of_ratios(10, 0, 0.5), "M-M-M-M-M-");
  EXPECT_EQ(pattern_of_ratios(4, 1, 0), "****");
}

TEST(HybridModel, of_a_pattern_has_layers_of_one_block_each) {
  const auto job = job_of({{"hybrid_layer_pattern", "M-M*E"}, {"num_moe_experts", "8"}, {"moe_router_topk", "2"}});
  ASSERT_TRUE(job) << text_of(job);
  const model::Architecture& m = job->model;
  ASSERT_EQ(m.depth(), 5);
  EXPECT_TRUE(is_hybrid(m));
  EXPECT_EQ(pattern_of(m), "M-M*E");
  EXPECT_EQ(m.layer(0).attention.mamba.heads, 16);  // twice the hidden size in heads of 64
  EXPECT_EQ(m.layer(0).attention.mamba.groups, 8);
  EXPECT_FALSE(m.layer(1).has_mixer());
  EXPECT_TRUE(m.layer(4).ffn.is_moe());
  EXPECT_TRUE(m.layer(3).ffn.is_empty());
}

TEST(HybridModel, takes_the_older_name_ratios_and_a_separate_mtp_pattern) {
  EXPECT_EQ(pattern_of(job_of({{"hybrid_override_pattern", "M-M*"}})->model), "M-M*");
  EXPECT_EQ(pattern_of(job_of({{"num_layers", "10"}, {"hybrid_attention_ratio", "0.2"}})->model), "MMM*MM*MMM");
  const auto mtp =
      job_of({{"hybrid_layer_pattern", "M-"}, {"mtp_num_layers", "2"}, {"mtp_hybrid_override_pattern", "*-"}});
  ASSERT_TRUE(mtp) << text_of(mtp);
  EXPECT_EQ(pattern_of(mtp->model), "M-/*-/*-");
}

TEST(HybridModel, repeated_mtp_layers_have_their_weights_once) {
  const auto once = job_of({{"hybrid_layer_pattern", "M-/*-/*-"}, {"mtp_use_repeated_layer", "true"}});
  const auto twice = job_of({{"hybrid_layer_pattern", "M-/*-/*-"}});
  ASSERT_TRUE(once && twice);
  EXPECT_EQ(2 * model::count_parameters(once->model).mtp, model::count_parameters(twice->model).mtp);
}

TEST(HybridModel, the_pattern_wins_over_num_layers_and_says_so) {
  const auto job = job_of({{"hybrid_layer_pattern", "M-M*"}, {"num_layers", "7"}});
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 4);
  EXPECT_TRUE(test::warns(*job, "num_layers"));
}

TEST(HybridModel, bars_of_the_pattern_are_pipeline_stages) {
  const auto job = job_of({{"hybrid_layer_pattern", "MM|-|*M|-M"}, {"pipeline_model_parallel_size", "2"}});
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->parallel.virtual_pipeline, 2);
  const auto layout = pipeline_layout(*job);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks[0][0].num_layers, 2);
  EXPECT_EQ(layout->ranks[1][0].num_layers, 1);
  EXPECT_EQ(layout->ranks[0][1].first_layer, 3);
  EXPECT_TRUE(layout->ranks[1][1].has_loss);
}

TEST(HybridModel, contradictions_are_refused_in_megatrons_words) {
  struct Case {
    std::vector<std::pair<std::string, std::string>> keys;
    const char* says;
  };
  const std::pair<std::string, std::string> pattern{"hybrid_layer_pattern", "M-M*"};
  const std::vector<Case> cases = {
      {{pattern, {"hybrid_attention_ratio", "0.5"}}, "cannot be used together"},
      {{{"is_hybrid_model", "true"}}, "which layers are mixers"},
      {{{"hybrid_layer_pattern", "ME"}}, "num_moe_experts is not given"},
      {{pattern, {"mamba_num_heads", "12"}}, "divisible by ngroups"},
      {{pattern, {"mamba_head_dim", "100"}}, "divisible by headdim"},
      {{pattern, {"mamba_num_groups", "1"}, {"tensor_model_parallel_size", "2"}}, "ngroups must be evenly divisible"},
      {{pattern, {"pipeline_model_parallel_size", "2"}, {"pipeline_model_parallel_layout", "Et*2|t*2L"}},
       "should not be used with hybrid_layer_pattern"},
      {{pattern, {"pipeline_model_parallel_size", "2"}, {"virtual_pipeline_model_parallel_size", "2"}}, "'|'"},
      {{{"hybrid_layer_pattern", "M|-|*"}, {"pipeline_model_parallel_size", "2"}}, "segments"},
      {{pattern, {"transformer_impl", "local"}}, "Transformer Engine"},
      {{pattern, {"peft", "lora"}}, "adapters"},
      {{pattern, {"cpu_offloading", "true"}, {"cpu_offloading_num_layers", "2"}}, "do not offload whole layers"},
      {{{"num_layers", "4"}, {"hybrid_attention_ratio", "0.7"}, {"hybrid_mlp_ratio", "0.7"}}, "more than all layers"}};
  for (const Case& c : cases) {
    const auto job = job_of(c.keys);
    EXPECT_NE(text_of(job).find(c.says), std::string::npos) << c.keys.back().first << ": " << text_of(job);
  }
}

TEST(HybridModel, of_bridges_provider_starts_from_its_defaults) {
  const std::string yaml = R"(
model:
  _target_: megatron.bridge.models.hybrid.hybrid_provider.HybridModelProvider
  hybrid_layer_pattern: M-M*-
  hybrid_override_pattern: null
  hybrid_attention_ratio: 0.0
  hybrid_stack_spec: null
  hidden_size: 512
  num_attention_heads: 8
  mamba_num_groups: 4
  keep_mtp_spec_in_bf16: false
  vocab_size: 32000
  seq_length: 1024
train:
  micro_batch_size: 1
  global_batch_size: 8
)";
  const auto job = read_job({{"run_config.yaml", yaml}}, on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(pattern_of(job->model), "M-M*-");
  EXPECT_EQ(job->model.norm, model::NormKind::kRms);
  EXPECT_EQ(job->model.position_rows, 0);
  EXPECT_FALSE(job->model.rope);
  EXPECT_FALSE(job->model.layer(1).ffn.bias);
  EXPECT_EQ(job->model.layer(0).attention.mamba.groups, 4);
}

// 31.6, 120.7 and 549 billion are what the names and reports of the models say.
TEST(HybridModel, nemotron_3_has_its_published_sizes) {
  const std::vector<std::pair<const char*, double>> sizes = {
      {"nemotron-3-nano", 31.6}, {"nemotron-3-super", 120.7}, {"nemotron-3-ultra", 549.3}};
  for (const auto& [name, billions] : sizes) {
    const auto model = model::find_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_NEAR(static_cast<double>(model::count_parameters(*model).total) / 1e9, billions, 0.1) << name;
    EXPECT_TRUE(is_hybrid(*model)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::job
