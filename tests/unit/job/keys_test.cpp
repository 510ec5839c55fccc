// SPDX-License-Identifier: Apache-2.0
#include "job/keys.h"

#include <gtest/gtest.h>

#include <set>

#include "support.h"

namespace plimsoll::job {
namespace {

using document::Node;
using document::parse_scalar;

constexpr Framework kFrameworks[] = {Framework::kMegatronLm, Framework::kMegatronBridge, Framework::kTransformers,
                                     Framework::kFsdp2,      Framework::kDeepSpeed,      Framework::kTorchtitan};

std::string set(Job& job, std::string_view key, std::string_view value) {
  return test::text_of(set_key(job, key, parse_scalar(value)));
}

TEST(Keys, the_table_documents_every_key_once) {
  std::set<std::string> names;
  for (const KeyInfo& key : key_table()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " twice";
    EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_FALSE(key.type.empty()) << key.name;
    EXPECT_FALSE(key.section.empty()) << key.name;
    EXPECT_TRUE(is_key(key.name));
  }
  EXPECT_GT(names.size(), 150U);
  EXPECT_EQ(key_names().size(), names.size());
}

TEST(Keys, every_alias_points_at_a_key_or_says_why_not) {
  for (const Framework framework : kFrameworks) {
    std::set<std::string_view> names;
    for (const Alias& alias : alias_table(framework)) {
      const bool sets = alias.kind == AliasKind::kKey || alias.kind == AliasKind::kInverse;
      EXPECT_TRUE(!sets || is_key(alias.target)) << alias.name << " -> " << alias.target;
      EXPECT_EQ(alias.target.empty(), alias.kind == AliasKind::kNoEffect) << alias.name;
      EXPECT_FALSE(is_key(alias.name)) << alias.name << " is a key itself";
      names.insert(alias.name);
    }
    EXPECT_FALSE(names.empty());
  }
}

TEST(Keys, the_value_of_every_plain_key_can_be_set_again) {
  for (const Framework framework : kFrameworks) {
    const Job before = defaults_for(framework);
    for (const std::string& key : key_names()) {
      const auto value = value_of(before, key);
      if (!value || key == "zero_stage" || (value->is_integer() && value->integer <= 0)) continue;
      Job after = before;

      const Status status = set_key(after, key, *value);

      EXPECT_TRUE(status) << key << ": " << test::text_of(status);
      EXPECT_EQ(document::to_text(*value_of(after, key)), document::to_text(*value)) << key;
      EXPECT_TRUE(after.has(key));
    }
  }
}

TEST(Keys, flags_and_aliases_of_any_framework_set_the_same_field) {
  for (const char* name :
       {"micro_batch_size", "--micro-batch-size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu"}) {
    Job job = defaults_for(Framework::kMegatronLm);
    EXPECT_EQ(set(job, name, "3"), "no error") << name;
    EXPECT_EQ(job.batch.micro_batch, 3) << name;
  }
  EXPECT_EQ(canonical_name("--num-experts"), "num_moe_experts");
  EXPECT_EQ(canonical_name("zero_optimization.stage"), "zero_stage");
}

TEST(Keys, negated_flags_turn_off) {
  Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_EQ(set(job, "--no-rope-fusion", ""), "no error");
  EXPECT_EQ(set(job, "disable_bias_linear", "true"), "no error");

  EXPECT_FALSE(job.kernels.rope_fusion);
  EXPECT_EQ(job.model_keys.add_bias_linear, false);
}

TEST(Keys, unknown_keys_suggest_the_nearest) {
  Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_EQ(set(job, "--micro-batch-sise", "1"), "unknown key '--micro-batch-sise'; did you mean 'micro_batch_size'?");
  EXPECT_EQ(set(job, "qqqqqqqqqqqqqqq", "1"), "unknown key 'qqqqqqqqqqqqqqq'");
}

TEST(Keys, known_names_that_are_not_modelled_warn_unless_off) {
  Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_EQ(set(job, "moe_paged_stash", "false"), "no error");
  EXPECT_TRUE(job.warnings.empty());
  EXPECT_EQ(set(job, "moe_paged_stash", "true"), "no error");
  EXPECT_EQ(set(job, "moe_paged_stash", "true"), "no error");
  EXPECT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(set(job, "gtp_weight_remat_size", "1"), "no error");
  EXPECT_EQ(job.warnings.size(), 1U);
  EXPECT_EQ(set(job, "tensorboard_dir", "/logs"), "no error");
  EXPECT_EQ(job.warnings.size(), 1U);
}

TEST(Keys, names_that_cannot_be_described_are_refused) {
  Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_NE(set(job, "hybrid_layer_pattern", "MG").find("not modelled"), std::string::npos);
  EXPECT_NE(set(job, "--model-parallel-size", "2").find("is no longer valid"), std::string::npos);
}

TEST(Keys, values_of_the_wrong_type_or_size_are_refused_with_the_key) {
  struct Case {
    const char* key;
    const char* value;
    const char* message;
  };
  for (const Case& c : {Case{"tensor_model_parallel_size", "0",
                             "tensor_model_parallel_size: found 0 (an integer), wanted an integer from 1"},
                        Case{"tensor_model_parallel_size", "-4", "found -4"},
                        Case{"tensor_model_parallel_size", "9223372036854775808", "wanted an integer"},
                        Case{"tensor_model_parallel_size", "9223372036854775807", "wanted an integer"},
                        Case{"num_attention_heads", "9223372036854775807", "wanted an integer"},
                        Case{"hidden_size", "1e30", "wanted an integer"},
                        Case{"hidden_size", "4096.5", "wanted an integer"},
                        Case{"hidden_size", "many", "wanted an integer"},
                        Case{"hidden_size", "true", "wanted an integer"},
                        Case{"hidden_size", "[1,2]", "wanted an integer"},
                        Case{"hidden_dropout", "nan", "wanted a number"},
                        Case{"hidden_dropout", "2", "wanted a number from 0 to 1"},
                        Case{"swiglu", "maybe", "wanted true or false"},
                        Case{"params_dtype", "int4", "wanted one of fp32, bf16, fp16, fp8"},
                        Case{"optimizer", "adamx", "wanted one of adam"},
                        Case{"recompute_modules", "mlpp", "Invalid choices for recompute_modules: 'mlpp'"},
                        Case{"offload_modules", "x", "Invalid choices for offload_modules"},
                        Case{"cp_comm_type", "smoke", "wanted p2p"},
                        Case{"moe_layer_freq", "([0]*3+[2])", "moe_layer_freq"},
                        Case{"recipe", "fp3", "wanted"},
                        Case{"gpu", "h1000000", "gpu"},
                        Case{"zero_stage", "4", "from 0 to 3"},
                        Case{"host_memory", "12 parsecs", "unknown unit"},
                        Case{"window_size", "(1,2,3)", "(left, right)"},
                        Case{"attention_backend", "magic", "wanted auto"},
                        Case{"fp8", "e9m9", "wanted e4m3"}}) {
    Job job = defaults_for(Framework::kMegatronLm);

    const std::string text = set(job, c.key, c.value);

    EXPECT_NE(text.find(c.message), std::string::npos) << c.key << " = " << c.value << " gave: " << text;
    EXPECT_NE(text.find(c.key), std::string::npos) << text;
  }
}

TEST(Keys, numbers_may_be_written_as_text_or_in_scientific_form) {
  Job job = defaults_for(Framework::kDeepSpeed);
  Node text;
  text.kind = Node::Kind::kString;
  text.text = "5e8";

  EXPECT_TRUE(set_key(job, "reduce_bucket_size", text));

  EXPECT_EQ(job.sharding.reduce_bucket, 500'000'000);
}

TEST(Keys, a_recipe_sets_the_keys_of_its_precision) {
  Job job = defaults_for(Framework::kMegatronBridge);

  EXPECT_EQ(set(job, "recipe", "bf16_with_mxfp8_mixed"), "no error");
  EXPECT_TRUE(job.asked.fp8);
  EXPECT_EQ(job.asked.fp8_recipe, Fp8Recipe::kMxfp8);
  EXPECT_TRUE(job.precision.fp8_param_gather);
  EXPECT_TRUE(job.precision.reuse_grad_buffer_for_mxfp8);

  EXPECT_EQ(set(job, "recipe", "bf16"), "no error");
  EXPECT_FALSE(job.asked.fp8);
  EXPECT_FALSE(job.precision.fp8_param_gather);
}

TEST(Keys, setting_one_way_to_say_a_thing_drops_the_others) {
  Job job = test::llama_8b();
  ASSERT_EQ(set(job, "num_layers_per_virtual_pipeline_stage", "2"), "no error");
  ASSERT_EQ(set(job, "pipeline_model_parallel_size", "4"), "no error");

  EXPECT_EQ(set(job, "virtual_pipeline_model_parallel_size", "8"), "no error");
  EXPECT_EQ(test::text_of(complete(job)), "no error");
  EXPECT_EQ(job.parallel.virtual_pipeline, 8);

  EXPECT_EQ(set(job, "gradient_accumulation_steps", "16"), "no error");
  EXPECT_FALSE(job.batch.global_batch.has_value());
}

TEST(Keys, environment_variables_can_be_set) {
  Job job = defaults_for(Framework::kMegatronLm);

  EXPECT_EQ(set(job, "environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), "no error");

  EXPECT_EQ(job.environment.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
}

TEST(Keys, model_keys_change_a_catalogue_model) {
  Job job = test::llama_8b();

  ASSERT_EQ(set(job, "num_layers", "4"), "no error");
  ASSERT_EQ(test::text_of(complete(job)), "no error");

  EXPECT_EQ(job.model.depth(), 4);
  EXPECT_EQ(job.model.hidden, 4096);
  EXPECT_EQ(job.model.layer(0).attention.kv_heads, 8);
}

}  // namespace
}  // namespace plimsoll::job
