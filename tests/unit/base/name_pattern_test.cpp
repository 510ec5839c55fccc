// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/name_pattern.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

bool starts(std::string_view pattern, std::string_view name) {
  const auto read = NamePattern::read(pattern);
  EXPECT_TRUE(read) << pattern;
  return read && read->starts(name);
}

TEST(NamePattern, begins_like_a_match_of_python) {
  EXPECT_TRUE(starts("model.layers.3", "model.layers.31.mlp.down_proj.weight"));
  EXPECT_FALSE(starts("layers.3", "model.layers.3.mlp.down_proj.weight"));
  EXPECT_TRUE(starts("^lm_head.weight$", "lm_head.weight"));
  EXPECT_FALSE(starts("^lm_head.weight$", "lm_head.weights"));
  EXPECT_TRUE(starts("", "anything"));
}

TEST(NamePattern, classes_groups_and_repetitions_choose_layers) {
  EXPECT_TRUE(
      starts(R"(model\.layers\.2[0-9]+\.block_sparse_moe\.gate)", "model.layers.27.block_sparse_moe.gate.weight"));
  EXPECT_FALSE(starts(R"(model\.layers\.2[0-9]+\.)", "model.layers.2.mlp"));
  EXPECT_TRUE(starts(R"(.*\.(1|1[2-4])\.mlp)", "model.layers.13.mlp.up_proj.weight"));
  EXPECT_FALSE(starts(R"(.*\.(1|1[2-4])\.mlp)", "model.layers.15.mlp.up_proj.weight"));
  EXPECT_TRUE(starts(R"((?:model\.)?embed_tokens)", "embed_tokens.weight"));
  EXPECT_TRUE(starts(R"([^.]+\.layers\.\d\.self_attn.(q|v)_proj)", "model.layers.7.self_attn.v_proj.weight"));
  EXPECT_TRUE(starts("a|b", "b"));
}

TEST(NamePattern, what_is_not_understood_is_said) {
  for (const auto& [pattern, problem] :
       {std::pair{"(?=x)", "looks around"}, std::pair{"a{2}", "counted repetition"}, std::pair{"(a", "not closed"},
        std::pair{"[a", "class that is not closed"}, std::pair{"*", "repetition of nothing"},
        std::pair{"a\\", "backslash at the end"}, std::pair{"a)", "closing bracket"}, std::pair{"\\1", "escaped"},
        std::pair{"[b-a]", "ends before it begins"}, std::pair{"a**", "repetition of a repetition"}}) {
    const auto read = NamePattern::read(pattern);
    ASSERT_FALSE(read) << pattern;
    EXPECT_THAT(read.error().message, HasSubstr(problem)) << pattern;
  }
}

TEST(NamePattern, hostile_expressions_end_soon) {
  EXPECT_FALSE(NamePattern::read(std::string(5000, 'a')));
  EXPECT_FALSE(NamePattern::read(std::string(400, '(')));
  std::string nested = "a";
  for (int i = 0; i < 15; ++i) nested = "(" + nested + ")*";
  EXPECT_FALSE(starts(nested + "b", std::string(300, 'a')));
  EXPECT_FALSE(starts("(a*)*(a*)*(a*)*b", std::string(300, 'a') + "c"));
}

}  // namespace
}  // namespace plimsoll
