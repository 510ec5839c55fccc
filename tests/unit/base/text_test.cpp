// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;

TEST(Text, trim_takes_space_from_both_ends_only) {
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(trim("   "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, case_is_folded_byte_by_byte) {
  EXPECT_EQ(lower("LLaMA-3"), "llama-3");
  EXPECT_TRUE(equals_ignoring_case("GiB", "gib"));
  EXPECT_FALSE(equals_ignoring_case("GiB", "gi"));
  EXPECT_TRUE(equals_ignoring_case("", ""));
}

TEST(Text, split_keeps_empty_parts) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
}

TEST(Text, join_undoes_split) {
  EXPECT_EQ(join({"a", "", "b"}, ","), "a,,b");
  EXPECT_EQ(join({}, ","), "");
}

TEST(Text, replace_changes_every_occurrence) { EXPECT_EQ(replace("a-b-c", '-', '_'), "a_b_c"); }

TEST(Nearest, finds_the_word_that_was_meant) {
  const std::vector<std::string> keys = {"micro_batch_size", "global_batch_size", "seq_length"};
  EXPECT_EQ(nearest("micro_batchsize", keys), "micro_batch_size");
  EXPECT_EQ(nearest("seq_lenght", keys), "seq_length");
  EXPECT_EQ(nearest("SEQ_LENGTH", keys), "seq_length");
}

TEST(Nearest, stays_silent_when_nothing_is_near) {
  const std::vector<std::string> keys = {"micro_batch_size"};
  EXPECT_EQ(nearest("zzzzzz", keys), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'm'), keys), "");
}

TEST(Nearest, takes_the_nearer_of_two) {
  const std::vector<std::string> names = {"llama3-70b", "llama3-8b"};
  EXPECT_EQ(nearest("lama3-8b", names), "llama3-8b");
}

}  // namespace
}  // namespace plimsoll
