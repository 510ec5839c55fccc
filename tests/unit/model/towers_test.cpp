// SPDX-License-Identifier: Apache-2.0
// Towers by their names, with the sizes that their own files have.
#include "model/towers.h"

#include <gtest/gtest.h>

#include "model/catalog.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

Result<NamedTower> tower(std::string_view name, std::string_view projector = {}) {
  return tower_named(name, projector, *find_model("llama2-7b"));
}

// Patches, their positions and the layers, without a pooled token's head.
std::int64_t parameters(const Vision& v) {
  const Architecture& a = v.tower;
  std::int64_t count = a.hidden * (a.patch_values + (v.patch_bias ? 1 : 0)) + a.position_rows * a.hidden;
  if (v.class_token) count += a.hidden;
  if (a.embedding_norm) count += 2 * a.hidden;
  if (a.final_norm) count += 2 * a.hidden;
  for (std::int64_t i = 0; i < a.depth(); ++i) count += layer_parameters(a, a.layer(i));
  return count + v.pooling_head;
}

TEST(Towers, have_the_published_number_of_parameters) {
  struct Row {
    const char* name;
    std::int64_t parameters;
    std::int64_t tokens;
  };
  for (const Row& row :
       {Row{"openai/clip-vit-large-patch14-336", 303'507'456, 576},
        Row{"openai/clip-vit-large-patch14", 303'179'776, 256}, Row{"/models/clip-vit-base-patch32/", 87'456'000, 49},
        Row{"google/siglip-so400m-patch14-384", 428'225'600, 729},
        Row{"google/siglip-base-patch16-224", 92'884'224, 196}}) {
    const auto found = tower(row.name);
    ASSERT_TRUE(found) << row.name;
    EXPECT_TRUE(found->is_known) << row.name;
    const Vision& v = *found->vision;
    EXPECT_EQ(parameters(v), row.parameters) << row.name;
    EXPECT_EQ(v.tokens(v.image_size, v.image_size), row.tokens) << row.name;
    EXPECT_TRUE(v.apart && v.skips_last_layer);
  }
}

TEST(Towers, are_found_by_any_spelling_and_the_usual_one_stands_for_the_rest) {
  for (const char* name : {"laion/CLIP-ViT-L-14-336", "./clip_vit_large_patch14_336", "CLIP-ViT-large-patch14-336px"}) {
    const auto found = tower(name);
    ASSERT_TRUE(found) << name;
    EXPECT_TRUE(found->is_known) << name;
    EXPECT_EQ(found->vision->image_size, 336) << name;
  }
  const auto other = tower("my/own-encoder");
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->is_known);
  EXPECT_EQ(other->vision->image_size, 336);
}

TEST(Towers, have_the_projector_that_is_named) {
  EXPECT_EQ(tower("clip-vit-large-patch14", "linear")->vision->projector, Projector::kLinear);
  EXPECT_EQ(tower("clip-vit-large-patch14", "mlp2x_gelu")->vision->projector, Projector::kMlp);
  EXPECT_EQ(tower("clip-vit-large-patch14", "something")->vision->projector, Projector::kMlp);
  const auto shuffled = tower("google/siglip-so400m-patch14-384", "mlp_downsample");
  EXPECT_EQ(shuffled->vision->projector, Projector::kShuffledMlp);
  EXPECT_EQ(shuffled->vision->tokens(384, 384), 182);  // 27 x 27 patches
  EXPECT_EQ(tower("OpenGVLab/InternViT-300M-448px")->vision->projector, Projector::kShuffledMlp);
  EXPECT_EQ(tower("OpenGVLab/InternViT-300M-448px")->vision->tokens(448, 448), 256);
}

}  // namespace
}  // namespace plimsoll::model
