// SPDX-License-Identifier: Apache-2.0
// Towers of vision-language models as their config.json describes them.
#include <gtest/gtest.h>

#include "document/node.h"
#include "model/hf_config.h"
#include "model/vision.h"

namespace plimsoll::model {
namespace {

Result<Architecture> read(const std::string& text) { return read_hf_config(*document::parse_json(text)); }

const std::string kText =
    R"("text_config": {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 8192})";

TEST(Vision, llava_takes_the_features_before_the_last_layer) {
  const auto model = read(
      R"({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model", "hidden_size": 768,
          "intermediate_size": 3072, "num_hidden_layers": 6, "num_attention_heads": 12, "image_size": 336,
          "patch_size": 14}, )" +
      kText + "}");
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_NE(model->vision, nullptr);
  EXPECT_TRUE(model->vision->skips_last_layer);
  EXPECT_TRUE(model->vision->drops_class_token);
  EXPECT_EQ(model->vision->tokens(336, 336), 576);
  EXPECT_EQ(model->vision->tower.position_rows, 577);
}

TEST(Vision, qwen_takes_images_of_any_size_and_merges_patches) {
  const auto model = read(R"({"model_type": "qwen2_5_vl", "vision_config": {"depth": 6, "hidden_size": 640,
      "num_heads": 10, "intermediate_size": 1720, "out_hidden_size": 1024}, )" +
                          kText + "}");
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_NE(model->vision, nullptr);
  EXPECT_EQ(model->vision->image_size, 0);
  EXPECT_EQ(model->vision->tokens(560, 672), 480);
  EXPECT_EQ(model->vision->window, 112);
}

TEST(Vision, gemma_pools_to_a_fixed_number_of_tokens) {
  const auto model = read(R"({"model_type": "gemma3", "mm_tokens_per_image": 256, "vision_config": {"image_size": 896,
      "patch_size": 14, "hidden_size": 1152, "num_attention_heads": 16}, )" +
                          kText + "}");
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->vision->tokens(896, 896), 256);
}

const std::string kLlama4 =
    R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 1024, "head_dim": 64,
        "intermediate_size": 1024, "intermediate_size_mlp": 2816, "num_hidden_layers": 4, "num_attention_heads": 16,
        "num_key_value_heads": 4, "num_local_experts": 4, "num_experts_per_tok": 1, "vocab_size": 8192},
        "vision_config": {"hidden_size": 768, "num_hidden_layers": 5, "num_attention_heads": 12,
        "intermediate_size": 3072, "image_size": 336, "patch_size": 14, "projector_input_dim": 1024,
        "projector_output_dim": 1024, "vision_output_dim": )";

TEST(Vision, llama4_shuffles_patches_through_an_adapter) {
  const auto model = read(kLlama4 + "1024}}");
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_NE(model->vision, nullptr);
  EXPECT_EQ(model->vision->tokens(336, 336), 144);
  EXPECT_EQ(model->vision->adapter, 1024);
  EXPECT_TRUE(model->vision->class_token);
  EXPECT_EQ(model->vision->tower.position_rows, 577);
  EXPECT_TRUE(model->warnings.empty());
}

TEST(Vision, llama4_widths_that_do_not_meet_are_an_error) {
  const auto model = read(kLlama4 + "2048}}");
  ASSERT_FALSE(model);
  EXPECT_NE(to_string(model.error()).find("vision_output_dim 2048 differ"), std::string::npos);
}

TEST(Vision, a_tower_that_is_not_known_is_named) {
  const auto model = read(R"({"model_type": "some_vl", "vision_config": {"hidden_size": 64}, )" + kText + "}");
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->vision, nullptr);
  ASSERT_FALSE(model->warnings.empty());
  EXPECT_NE(model->warnings.back().find("the tower of some_vl is not modelled"), std::string::npos);
}

TEST(Vision, sizes_that_make_no_sense_are_errors) {
  for (const char* bad : {R"("hidden_size": 0)", R"("hidden_size": 70, "num_attention_heads": 12)",
                          R"("patch_size": 0)", R"("image_size": [448, 336])", R"("num_hidden_layers": "many")"}) {
    const auto model = read(std::string(R"({"model_type": "llava", "vision_config": {)") + bad + "}, " + kText + "}");
    EXPECT_FALSE(model) << bad;
  }
}

}  // namespace
}  // namespace plimsoll::model
