// SPDX-License-Identifier: Apache-2.0
// validate() refuses every size that later arithmetic could not hold, and names it.
#include "model/architecture.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/catalog.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

using testing::HasSubstr;

std::string refused(const Architecture& model) {
  const Status status = validate(model);
  return status ? "accepted" : status.error().message;
}

Architecture llama() { return *find_model("llama3-8b"); }

TEST(Validate, catalogue_models_pass) {
  for (const CatalogEntry& entry : catalog_entries()) EXPECT_TRUE(validate(*find_model(entry.name))) << entry.name;
}

TEST(Validate, an_empty_model_is_refused) { EXPECT_THAT(refused({}), HasSubstr("the hidden size is 0")); }

TEST(Validate, hostile_sizes_are_refused_and_named) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 40}) {
    Architecture model = llama();
    model.hidden = value;
    EXPECT_THAT(refused(model), HasSubstr("the hidden size is"));

    model = llama();
    model.vocab = value;
    EXPECT_THAT(refused(model), HasSubstr("the vocabulary is"));

    model = llama();
    model.kinds[0].attention.heads = value;
    EXPECT_THAT(refused(model), HasSubstr("attention heads is"));

    model = llama();
    model.kinds[0].ffn.width = value;
    EXPECT_THAT(refused(model), HasSubstr("the FFN width is"));

    model = *find_model("deepseek-v3");
    model.kinds[1].ffn.experts_per_token = value;
    EXPECT_THAT(refused(model), HasSubstr("experts per token"));

    model = *find_model("deepseek-v3");
    model.kinds[0].attention.kv_lora_rank = value;
    EXPECT_THAT(refused(model), HasSubstr("key/value latent rank"));

    model = *find_model("qwen3-next-80b-a3b");
    model.kinds[0].attention.linear_conv = value;
    EXPECT_THAT(refused(model), HasSubstr("linear convolution width"));
  }
}

TEST(Validate, negative_experts_are_refused) {
  Architecture model = llama();
  model.kinds[0].ffn.experts = -8;
  EXPECT_THAT(refused(model), HasSubstr("experts is -8"));
}

TEST(Validate, layers_must_point_at_kinds) {
  Architecture model = llama();
  model.layers[3] = 7;
  EXPECT_THAT(refused(model), HasSubstr("a layer is of kind 7"));

  model = llama();
  model.layers.clear();
  EXPECT_THAT(refused(model), HasSubstr("the number of layers is 0"));

  model = llama();
  model.layers.assign(10'001, 0);
  EXPECT_THAT(refused(model), HasSubstr("the number of layers is 10001"));
}

TEST(Validate, dropouts_are_probabilities) {
  Architecture model = llama();
  model.hidden_dropout = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refused(model), HasSubstr("hidden dropout"));
  model = llama();
  model.attention_dropout = 1.0;
  EXPECT_THAT(refused(model), HasSubstr("attention dropout is 1"));
}

TEST(Validate, the_largest_sizes_count_without_overflow) {
  Architecture model = llama();
  model.hidden = 1 << 20;
  model.kinds[0].ffn = FeedForward{};
  model.kinds[0].ffn.experts = 1 << 16;
  model.kinds[0].ffn.experts_per_token = 1;
  model.kinds[0].ffn.expert_width = 1 << 22;
  EXPECT_THAT(refused(model), HasSubstr("more than 2^50 parameters"));
}

TEST(Parameters, parts_sum_to_the_whole) {
  const Architecture model = llama();
  const Layer& layer = model.layer(0);
  EXPECT_EQ(attention_parameters(model, layer.attention), 41'943'040);
  EXPECT_EQ(feed_forward_parameters(model, layer.ffn), 176'160'768);
  EXPECT_EQ(layer_parameters(model, layer), 41'943'040 + 176'160'768 + 2 * 4096);
  EXPECT_EQ(expert_parameters(model, layer.ffn), 0);
  EXPECT_EQ(count_parameters(model).total,
            2 * embedding_parameters(model) + 32 * layer_parameters(model, layer) + 4096);
}

}  // namespace
}  // namespace plimsoll::model
