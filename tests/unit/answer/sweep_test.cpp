// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::answer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& sweeps) {
  const Result<std::vector<Settings>> points = sweep_points(sweeps);
  EXPECT_FALSE(points.has_value());
  return points ? "" : points.error().message;
}

TEST(Sweep, splits_a_key_from_its_values) {
  const Result<SweepAxis> axis = parse_sweep("micro-batch-size=1, 2,4");

  ASSERT_TRUE(axis.has_value());
  EXPECT_EQ(axis->key, "micro_batch_size");
  EXPECT_THAT(axis->values, ElementsAre("1", "2", "4"));
}

TEST(Sweep, keeps_the_commas_of_a_list) {
  const Result<SweepAxis> axis = parse_sweep("recompute_modules=[mlp],[mlp,core_attn]");

  ASSERT_TRUE(axis.has_value());
  EXPECT_THAT(axis->values, ElementsAre("[mlp]", "[mlp,core_attn]"));
}

TEST(Sweep, makes_the_product_with_the_last_axis_fastest) {
  const Result<std::vector<Settings>> points = sweep_points({"a=1,2", "b=x,y"});

  ASSERT_TRUE(points.has_value());
  EXPECT_THAT(*points, ElementsAre(Settings{{"a", "1"}, {"b", "x"}}, Settings{{"a", "1"}, {"b", "y"}},
                                   Settings{{"a", "2"}, {"b", "x"}}, Settings{{"a", "2"}, {"b", "y"}}));
}

TEST(Sweep, is_one_point_without_settings_when_nothing_is_swept) {
  const Result<std::vector<Settings>> points = sweep_points({});

  ASSERT_TRUE(points.has_value());
  EXPECT_THAT(*points, ElementsAre(Settings{}));
}

TEST(Sweep, says_what_is_wrong_with_its_text) {
  EXPECT_THAT(error_of({"micro_batch_size"}), HasSubstr("wanted KEY=A,B,C"));
  EXPECT_THAT(error_of({"=1"}), HasSubstr("wanted KEY=A,B,C"));
  EXPECT_THAT(error_of({"a=1,,2"}), HasSubstr("empty value"));
  EXPECT_THAT(error_of({"a="}), HasSubstr("empty value"));
  EXPECT_THAT(error_of({"a=1,1"}), HasSubstr("twice"));
  EXPECT_THAT(error_of({"a=1", "a=2"}), HasSubstr("twice"));
}

TEST(Sweep, refuses_a_product_that_nobody_reads) {
  std::string axis = "=0";
  for (int i = 1; i < 500; ++i) axis += "," + std::to_string(i);

  EXPECT_THAT(error_of({"a" + axis, "b" + axis, "c" + axis}), HasSubstr("more than 10000 jobs"));
}

}  // namespace
}  // namespace plimsoll::answer
