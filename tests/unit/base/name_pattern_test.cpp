// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.h"

#include <string>

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  return NamePattern::parse(pattern).value().matches(text);
}

bool starts(std::string_view pattern, std::string_view text) {
  return NamePattern::parse(pattern).value().starts(text);
}

TEST(NamePattern, the_whole_text_has_to_match) {
  EXPECT_TRUE(matches("q_proj", "q_proj"));
  EXPECT_FALSE(matches("q_proj", "self_attn.q_proj"));
  EXPECT_FALSE(matches("q_proj", "q_proj."));
  EXPECT_TRUE(matches(".*q_proj", "self_attn.q_proj"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "x"));
}

TEST(NamePattern, modules_are_named_as_in_configuration_files) {
  constexpr const char* kQueries = R"(model\.layers\.\d+\.self_attn\.(q|v)_proj)";
  EXPECT_TRUE(matches(kQueries, "model.layers.31.self_attn.v_proj"));
  EXPECT_FALSE(matches(kQueries, "model.layers.31.self_attn.k_proj"));
  EXPECT_FALSE(matches(kQueries, "model.layers.x.self_attn.q_proj"));
  constexpr const char* kUnsloth =
      "(?:.*?(?:language|text).*?(?:self_attn|attention|attn|mlp).*?(?:k_proj|v_proj|q_proj|down_proj).*?)|"
      R"((?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:q_proj|down_proj)))";
  EXPECT_TRUE(matches(kUnsloth, "model.layers.7.mlp.down_proj"));
  EXPECT_TRUE(matches(kUnsloth, "model.language_model.layers.7.self_attn.k_proj"));
  EXPECT_FALSE(matches(kUnsloth, "model.visual.blocks.7.attn.qkv"));
  constexpr const char* kLanguage = R"(^(?!.*visual).*(?:q_proj|v_proj)$)";
  EXPECT_FALSE(NamePattern::parse(kLanguage)) << "looks ahead are not modelled";
  EXPECT_TRUE(matches("^.*language.*(?:q|v)_proj$", "model.language_model.layers.0.self_attn.q_proj"));
}

TEST(NamePattern, counts_and_classes) {
  EXPECT_TRUE(matches("a{2}", "aa"));
  EXPECT_FALSE(matches("a{2}", "a"));
  EXPECT_TRUE(matches("(ab){1,3}", "ababab"));
  EXPECT_FALSE(matches("(ab){1,3}", "abababab"));
  EXPECT_TRUE(matches("a{2,}", "aaaaaa"));
  EXPECT_TRUE(matches("a{,2}", ""));
  EXPECT_TRUE(matches("a{x}", "a{x}")) << "braces that count nothing stand for themselves";
  EXPECT_TRUE(matches("layers\\.([0-9]|1[0-5])\\..*", "layers.15.mlp"));
  EXPECT_FALSE(matches("layers\\.([0-9]|1[0-5])\\..*", "layers.16.mlp"));
  EXPECT_TRUE(matches("[^.]+", "lm_head"));
  EXPECT_FALSE(matches("[^.]+", "a.b"));
  EXPECT_TRUE(matches("[]a]+", "]a"));
  EXPECT_TRUE(matches("[\\w.]+", "a.b_c"));
  EXPECT_TRUE(matches("x??y*?", "xyy"));
}

TEST(NamePattern, what_is_no_pattern_says_where) {
  for (const char* wrong : {"(", ")", "a)", "[", "[a", "*", "a**b(", "\\", "(?=a)", "(?P<n>a)", "\\1", "[z-a]",
                            "a{3,1}", "a{9999}", "(a{400}){400}"})
    EXPECT_FALSE(NamePattern::parse(wrong)) << wrong;
}

// Python's re takes longer than the universe lasts.
TEST(NamePattern, no_pattern_takes_long) {
  EXPECT_FALSE(matches("(a*)*(a|aa)+b", std::string(5'000, 'a')));
  EXPECT_FALSE(matches("(a?){200}a{200}", std::string(150, 'a')));
  EXPECT_TRUE(matches("(a?){200}a{200}", std::string(300, 'a')));
  EXPECT_FALSE(NamePattern::parse(std::string(10'000, '('))) << "groups in groups";
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
  EXPECT_TRUE(starts(R"([^.]+\.layers\.\d\.self_attn.(q|v)_proj)", "model.layers.7.self_attn.v_proj.weight"));
  EXPECT_FALSE(starts("(a*)*(a*)*(a*)*b", std::string(300, 'a') + "c"));
}

}  // namespace
}  // namespace plimsoll
