// SPDX-License-Identifier: Apache-2.0
// Families with mixers other than attention, and later mixtures: sizes of public models, and of models that ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "model/hf_config.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

using testing::HasSubstr;

Result<Architecture> read(const std::string& text) { return read_hf_config(*document::parse_json(text)); }

std::int64_t parameters(const std::string& text) {
  const Result<Architecture> model = read(text);
  EXPECT_TRUE(model) << to_string(model.error());
  return model ? count_parameters(*model).total : 0;
}

std::string zamba2(const std::string& more) {
  std::string kinds;
  for (int i = 0; i < 38; ++i)
    kinds += std::string(i == 0 ? "" : ", ") + (i % 6 == 5 && i < 36 ? R"("hybrid")" : R"("mamba")");
  return R"({"model_type": "zamba2", "hidden_size": 2048, "num_hidden_layers": 38, "vocab_size": 32000,
             "intermediate_size": 8192, "num_attention_heads": 32, "n_mamba_heads": 64, "mamba_d_state": 128,
             "mamba_expand": 2, "mamba_ngroups": 1, "adapter_rank": 128, "use_mem_rope": true,
             "use_shared_attention_adapter": true, "layers_block_type": [)" +
         kinds + "]" + more + "}";
}

std::string gemma3n(std::int64_t layers, std::int64_t width, std::int64_t sharing) {
  return R"({"model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "intermediate_size": )" + std::to_string(width) + R"(, "num_kv_shared_layers": )" +
         std::to_string(sharing) + "}";
}

TEST(LateFamilies, public_models_have_their_published_sizes) {
  // state-spaces/mamba-130m-hf
  EXPECT_EQ(parameters(R"({"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280,
                           "state_size": 16, "intermediate_size": 1536, "time_step_rank": 48})"),
            129'135'360);
  // LiquidAI/LFM2-1.2B
  EXPECT_EQ(parameters(R"({"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 65536,
                           "num_attention_heads": 32, "num_key_value_heads": 8, "block_ff_dim": 12288,
                           "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "block_auto_adjust_ff_dim": true,
                           "conv_L_cache": 3, "full_attn_idxs": [2, 5, 8, 10, 12, 14]})"),
            1'170'340'608);
  // Zyphra/Zamba2-1.2B: six layers run one block, each with adapters of its own.
  EXPECT_EQ(parameters(zamba2("")), 1'215'064'704);
}

// google/gemma-3n-E2B and E4B are published with towers for images and sound, and with keys and values that the upper
// layers do not use: 2,097,408 for each of 10 and 15 of them. What is left beside the text is the same in both.
TEST(LateFamilies, gemma_3n_differs_between_its_two_sizes_by_what_is_published) {
  constexpr std::int64_t kUnused = 2'097'408;
  const std::int64_t small = parameters(gemma3n(30, 8192, 10));
  const std::int64_t large = parameters(gemma3n(35, 16384, 15));
  EXPECT_EQ(small, 4'435'182'688);
  EXPECT_EQ(large, 6'835'235'568);
  EXPECT_EQ(5'439'438'272 - small - 10 * kUnused, 7'849'978'192 - large - 15 * kUnused);
}

TEST(LateFamilies, upper_layers_of_gemma_3n_take_keys_of_their_kind_from_below) {
  const auto model = read(gemma3n(35, 16384, 15));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_FALSE(model->layer(19).attention.shares_keys);
  EXPECT_TRUE(model->layer(20).attention.shares_keys);
  EXPECT_TRUE(model->layer(9).ffn.sparse);
  EXPECT_FALSE(model->layer(10).ffn.sparse);
  EXPECT_EQ(model->layer(4).attention.sliding_window, 0);
  EXPECT_EQ(model->layer(5).attention.sliding_window, 512);
  const auto none_below = read(gemma3n(35, 16384, 32));  // layers 0 to 2 are sliding: nobody makes full keys
  ASSERT_FALSE(none_below);
  EXPECT_THAT(none_below.error().message, HasSubstr("num_kv_shared_layers"));
}

TEST(LateFamilies, shared_blocks_of_zamba_2_take_turns) {
  const auto model = read(zamba2(R"(, "num_mem_blocks": 2)"));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->layer(4).shared_block, 0);
  EXPECT_EQ(model->layer(5).shared_block, 1);
  EXPECT_EQ(model->layer(11).shared_block, 2);
  EXPECT_EQ(model->layer(17).shared_block, 1);
}

// Transformers counted these itself. ERNIE's routers have a bias for every expert that is not trained and not counted.
TEST(LateFamilies, recorded_models_have_the_parameters_that_were_counted_when_they_ran) {
  for (const std::string file : {"late-h200", "late-h200-blind", "models-h200"}) {
    const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/" + file + ".json";
    const document::Node root = *document::parse_json(*read_file(path));
    for (const document::Node& record : root.find("records")->items) {
      const std::string& id = record.find("id")->text;
      if (file == "models-h200" && id != "zamba2" && id != "gemma3n") continue;  // hf_vision_test has the others
      const Result<Architecture> model = read_hf_config(*record.find("config"));
      ASSERT_TRUE(model) << to_string(model.error());
      std::int64_t untrained = 0;
      for (std::int64_t i = 0; i < model->depth() && model->model_type == "ernie4_5_moe"; ++i)
        untrained += model->layer(i).ffn.experts;
      EXPECT_EQ(count_parameters(*model).total + untrained, record.find("parameters")->integer) << id;
    }
  }
}

TEST(LateFamilies, layers_are_of_the_kinds_that_the_file_says) {
  const std::string base = R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000)";
  const auto jamba = read(R"({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 2, )" + base + "}");
  ASSERT_TRUE(jamba);
  EXPECT_EQ(jamba->layer(2).attention.kind, AttentionKind::kGqa);
  EXPECT_EQ(jamba->layer(0).attention.kind, AttentionKind::kMamba2);
  EXPECT_TRUE(jamba->layer(0).attention.mamba.is_first_kind());
  EXPECT_TRUE(jamba->layer(1).ffn.is_moe());
  EXPECT_FALSE(jamba->layer(2).ffn.is_moe());
  // Absent, every second layer from the first is softmax attention.
  const auto minimax = read(R"({"model_type": "minimax", "num_local_experts": 4, )" + base + "}");
  ASSERT_TRUE(minimax);
  EXPECT_EQ(minimax->layer(0).attention.kind, AttentionKind::kGqa);
  EXPECT_EQ(minimax->layer(1).attention.kind, AttentionKind::kLightning);
}

TEST(LateFamilies, what_is_not_modelled_is_an_error_that_names_the_key) {
  const auto narrow = read(R"({"model_type": "mamba", "residual_in_fp32": false})");
  ASSERT_FALSE(narrow);
  EXPECT_THAT(narrow.error().message, HasSubstr("residual_in_fp32"));
  const auto listed = read(R"({"model_type": "hunyuan_v1_moe", "num_experts": [1, 8], "moe_topk": 1})");
  ASSERT_FALSE(listed);
  EXPECT_THAT(listed.error().message, HasSubstr("num_experts"));
  const auto rank = read(zamba2(R"(, "num_key_value_heads": 8)"));
  ASSERT_FALSE(rank);
  EXPECT_THAT(rank.error().message, HasSubstr("use_shared_attention_adapter"));
  const auto shares = read(R"({"model_type": "gemma3n_text", "activation_sparsity_pattern": [0.5, 1.5]})");
  ASSERT_FALSE(shares);
  EXPECT_THAT(shares.error().message, HasSubstr("activation_sparsity_pattern"));
  const auto streams = read(R"({"model_type": "gemma3n_text", "altup_num_inputs": 1})");
  ASSERT_FALSE(streams);
  EXPECT_THAT(streams.error().message, HasSubstr("altup_num_inputs"));
  const auto offset = read(R"({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 4})");
  ASSERT_FALSE(offset);
  EXPECT_THAT(offset.error().message, HasSubstr("attn_layer_offset"));
}

}  // namespace
}  // namespace plimsoll::model
