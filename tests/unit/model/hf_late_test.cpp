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
}

// Transformers counted these itself. ERNIE's routers have a bias for every expert that is not trained and not counted.
TEST(LateFamilies, recorded_models_have_the_parameters_that_were_counted_when_they_ran) {
  for (const std::string file : {"late-h200", "late-h200-blind"}) {
    const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/" + file + ".json";
    const document::Node root = *document::parse_json(*read_file(path));
    for (const document::Node& record : root.find("records")->items) {
      const Result<Architecture> model = read_hf_config(*record.find("config"));
      ASSERT_TRUE(model) << to_string(model.error());
      std::int64_t untrained = 0;
      for (std::int64_t i = 0; i < model->depth() && model->model_type == "ernie4_5_moe"; ++i)
        untrained += model->layer(i).ffn.experts;
      EXPECT_EQ(count_parameters(*model).total + untrained, record.find("parameters")->integer)
          << record.find("id")->text;
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
  const auto offset = read(R"({"model_type": "jamba", "attn_layer_period": 4, "attn_layer_offset": 4})");
  ASSERT_FALSE(offset);
  EXPECT_THAT(offset.error().message, HasSubstr("attn_layer_offset"));
}

}  // namespace
}  // namespace plimsoll::model
