// SPDX-License-Identifier: Apache-2.0
#include "job/model_keys.h"

#include <gtest/gtest.h>

#include "model/catalog.h"
#include "model/parameters.h"

namespace plimsoll::job {
namespace {

ModelKeys gpt_keys() {
  ModelKeys keys;
  keys.num_layers = 12;
  keys.hidden_size = 768;
  keys.num_attention_heads = 12;
  keys.vocab_size = 50304;
  keys.max_position_embeddings = 1024;
  return keys;
}

std::string message(const Result<model::Architecture>& result) { return result ? "no error" : result.error().message; }

TEST(ModelKeys, without_more_the_model_is_megatrons_gpt) {
  const auto model = architecture_of(gpt_keys(), {});

  ASSERT_TRUE(model) << message(model);
  const model::Layer& layer = model->layer(0);
  EXPECT_EQ(model->norm, model::NormKind::kLayer);
  EXPECT_TRUE(model->tied_embeddings);
  EXPECT_FALSE(model->rope);
  EXPECT_EQ(model->position_rows, 1024);
  EXPECT_DOUBLE_EQ(model->hidden_dropout, 0.1);
  EXPECT_DOUBLE_EQ(model->attention_dropout, 0.1);
  EXPECT_EQ(layer.ffn.width, 3072);
  EXPECT_FALSE(layer.ffn.gated);
  EXPECT_EQ(layer.ffn.activation, model::Activation::kGelu);
  EXPECT_TRUE(layer.attention.qkv_bias && layer.attention.out_bias && layer.ffn.bias);
  EXPECT_EQ(layer.attention.head_dim, 64);
  // 12 h^2 + 13 h per layer, the embedding, the positions, the last norm.
  EXPECT_EQ(model::count_parameters(*model).total, 12 * (12 * 768 * 768 + 13 * 768) + (50304 + 1024 + 2) * 768);
}

TEST(ModelKeys, llama_in_megatrons_spelling_has_the_parameters_of_the_catalogue) {
  ModelKeys keys;
  keys.num_layers = 32;
  keys.hidden_size = 4096;
  keys.ffn_hidden_size = 14336;
  keys.num_attention_heads = 32;
  keys.num_query_groups = 8;
  keys.vocab_size = 128256;
  keys.gated = true;
  keys.activation = model::Activation::kSilu;
  keys.rms_norm = true;
  keys.add_bias_linear = false;
  keys.tied_embeddings = false;
  keys.position_embedding = PositionKind::kRope;

  const auto model = architecture_of(keys, {});
  const auto known = model::find_model("llama3-8b");

  ASSERT_TRUE(model && known) << message(model);
  EXPECT_EQ(model::count_parameters(*model).total, model::count_parameters(*known).total);
}

TEST(ModelKeys, a_gated_mlp_without_width_follows_the_cli_rule) {
  ModelKeys keys = gpt_keys();
  keys.gated = true;
  EXPECT_EQ(architecture_of(keys, {})->layer(0).ffn.width, 4 * 768);

  keys.swiglu_ffn_rule = true;
  EXPECT_EQ(architecture_of(keys, {})->layer(0).ffn.width, 2048);
}

TEST(ModelKeys, the_null_tokenizer_adds_a_row) {
  ModelKeys keys = gpt_keys();
  keys.null_tokenizer = true;

  EXPECT_EQ(architecture_of(keys, {})->vocab, 50305);
}

TEST(ModelKeys, experts_follow_the_layer_frequency) {
  ModelKeys keys = gpt_keys();
  keys.num_moe_experts = 8;
  ASSERT_TRUE(parse_moe_layer_freq("([0]*2+[1]*10)", keys));

  auto model = architecture_of(keys, {});
  ASSERT_TRUE(model) << message(model);
  EXPECT_FALSE(model->layer(1).ffn.is_moe());
  EXPECT_TRUE(model->layer(2).ffn.is_moe());
  EXPECT_EQ(model->layer(2).ffn.expert_width, 3072);
  EXPECT_EQ(model->layer(2).ffn.experts_per_token, 2);

  ASSERT_TRUE(parse_moe_layer_freq("2", keys));
  model = architecture_of(keys, {});
  EXPECT_TRUE(model->layer(0).ffn.is_moe());
  EXPECT_FALSE(model->layer(1).ffn.is_moe());
}

TEST(ModelKeys, layer_frequencies_that_make_no_sense_are_refused) {
  ModelKeys keys = gpt_keys();
  for (const char* text : {"", "0", "-1", "[0,2]", "([0]*3", "[0]*3+", "[1]*99999999999", "([1]*1000)*1000", "0x1",
                           "[[1]]", "[1] [0]", "*3", "[]"})
    EXPECT_FALSE(parse_moe_layer_freq(text, keys)) << text;

  ASSERT_TRUE(parse_moe_layer_freq("[1, 0]", keys));
  keys.num_moe_experts = 4;
  EXPECT_NE(message(architecture_of(keys, {})).find("names 2 layers; num_layers is 12"), std::string::npos);
}

TEST(ModelKeys, latent_attention_uses_megatrons_ranks) {
  ModelKeys keys = gpt_keys();
  keys.multi_latent_attention = true;
  keys.q_lora_rank = 0;
  keys.v_head_dim = 96;

  const auto model = architecture_of(keys, {});

  ASSERT_TRUE(model);
  const model::Attention& attention = model->layer(0).attention;
  EXPECT_EQ(attention.kind, model::AttentionKind::kMla);
  EXPECT_EQ(attention.q_lora_rank, 0);
  EXPECT_EQ(attention.kv_lora_rank, 512);
  EXPECT_EQ(attention.qk_nope_dim, 128);
  EXPECT_EQ(attention.qk_rope_dim, 64);
  EXPECT_EQ(attention.v_head_dim, 96);
  EXPECT_TRUE(model::validate(*model));
}

TEST(ModelKeys, what_is_missing_is_named) {
  ModelKeys keys = gpt_keys();
  keys.hidden_size.reset();
  EXPECT_NE(message(architecture_of(keys, {})).find("hidden_size is not given"), std::string::npos);

  keys = gpt_keys();
  keys.vocab_size.reset();
  EXPECT_NE(message(architecture_of(keys, {})).find("tokenizer"), std::string::npos);

  keys = gpt_keys();
  keys.max_position_embeddings.reset();
  EXPECT_NE(message(architecture_of(keys, {})).find("max_position_embeddings"), std::string::npos);

  keys = gpt_keys();
  keys.num_attention_heads = 7;
  EXPECT_NE(message(architecture_of(keys, {})).find("not divisible"), std::string::npos);
}

TEST(ModelKeys, a_named_model_keeps_what_the_keys_do_not_say) {
  const auto base = model::find_model("deepseek-v3");
  ASSERT_TRUE(base);
  ModelKeys keys;
  keys.num_layers = 10;
  keys.num_moe_experts = 32;

  const auto model = architecture_of(keys, *base);

  ASSERT_TRUE(model) << message(model);
  EXPECT_EQ(model->depth(), 10);
  EXPECT_FALSE(model->layer(2).ffn.is_moe());
  EXPECT_EQ(model->layer(3).ffn.experts, 32);
  EXPECT_EQ(model->layer(3).ffn.experts_per_token, base->layer(3).ffn.experts_per_token);
}

TEST(ModelKeys, keys_that_contradict_a_named_model_are_refused) {
  const auto dense = model::find_model("llama3-8b");
  const auto hybrid = model::find_model("qwen3-next-80b-a3b");
  ASSERT_TRUE(dense && hybrid);

  ModelKeys keys;
  keys.num_moe_experts = 8;
  EXPECT_NE(message(architecture_of(keys, *dense)).find("is a dense model"), std::string::npos);

  keys = {};
  keys.moe_layer_period = 1;
  EXPECT_NE(message(architecture_of(keys, *dense)).find("moe_layer_freq contradicts"), std::string::npos);

  keys = {};
  keys.num_layers = 1000;
  EXPECT_NE(message(architecture_of(keys, *hybrid)).find("alternating kinds"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::job
