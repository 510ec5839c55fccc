// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Suggest, reads_lists_as_tables_write_them) {
  EXPECT_THAT(listed_values("none, cpu, nvme"), ElementsAre("none", "cpu", "nvme"));
  EXPECT_THAT(listed_values("list of core_attn, mlp"), ElementsAre("core_attn", "mlp"));
  EXPECT_THAT(listed_values("bf16, fp16, or Bridge's long names"), ElementsAre("bf16", "fp16"));
  EXPECT_THAT(listed_values("integer"), IsEmpty());
  EXPECT_THAT(listed_values("text such as Et*3|(tt|)*29,m|L"), IsEmpty());
}

TEST(Suggest, sets_one_wrong_letter_of_a_short_word_right) {
  for (const char* word : {"cp", "cpuu", "xpu", "cup"})
    EXPECT_EQ(did_you_mean(word, "none, cpu, nvme"), "did you mean cpu?");
}

TEST(Suggest, does_not_take_another_word_for_a_typo) {
  EXPECT_EQ(did_you_mean("trl", "telescope, verl, openrlhf"), "");
  EXPECT_EQ(did_you_mean("tcsh", "bash, zsh, fish"), "");
  EXPECT_EQ(did_you_mean("", "a, b"), "");
  EXPECT_EQ(did_you_mean("speed", "time, headroom, gpu-hours"), "");
}

TEST(Suggest, allows_a_third_of_a_long_word) {
  EXPECT_EQ(did_you_mean("step_secs", "peak_allocated, step_seconds"), "did you mean step_seconds?");
}

TEST(Suggest, knows_a_value_by_its_beginning) {
  const std::vector<std::string> names = {
      "megatron-bridge", "megatron-lm", "complete", "map", "seq-length", "optimizer", "optimizer-implementation"};
  EXPECT_EQ(did_you_mean("megatron", names), "did you mean megatron-lm?");
  EXPECT_EQ(did_you_mean("megtron", names), "did you mean megatron-bridge?");
  EXPECT_EQ(did_you_mean("completions", names), "did you mean complete?");
  EXPECT_EQ(did_you_mean("seq-len", names, "--"), "did you mean --seq-length?");
  EXPECT_EQ(did_you_mean("optimizer-impl", names), "did you mean optimizer-implementation?");
  for (const char* word : {"seed", "maps-of-it", "rules"}) EXPECT_EQ(did_you_mean(word, names), "");
}

}  // namespace
}  // namespace plimsoll
