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

TEST(Nearest, of_a_short_word_one_letter_is_wrong_or_two_are_swapped) {
  const std::vector<std::string> names = {"fit", "peft", "tp", "gpu"};
  EXPECT_EQ(nearest("fti", names), "fit");
  EXPECT_EQ(nearest("tpp", names), "tp");
  EXPECT_EQ(nearest("set", names), "");
  EXPECT_EQ(nearest("", names), "");
}

TEST(Nearest, takes_the_nearer_of_two) {
  const std::vector<std::string> names = {"llama3-70b", "llama3-8b"};
  EXPECT_EQ(nearest("lama3-8b", names), "llama3-8b");
}

TEST(Printable, what_a_terminal_would_obey_is_taken_out) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m text", 80), "red text");
  EXPECT_EQ(printable("\x1b]0;title\x07name\x1b]8;;http://x\x1b\\", 80), "name");
  EXPECT_EQ(printable(std::string_view{"a\x07"
                                       "b\x7f"
                                       "c\0d",
                                       7},
                      80),
            "a?b?c?d");
  EXPECT_EQ(printable("one\ttwo\r\nthree", 80), "one two  three");
  EXPECT_EQ(printable("abc\xE2\x80\xAE"
                      "fed",
                      80),
            "abc?fed");  // right-to-left override
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m",
                      80),
            "?31m");  // the one-character form of ESC [
}

TEST(Printable, other_letters_stay_and_broken_ones_do_not) {
  EXPECT_EQ(printable("Get\xC3\xB6tet \xE5\xB7\xB2", 80), "Get\xC3\xB6tet \xE5\xB7\xB2");
  EXPECT_EQ(printable("\xFF\xC3", 80), "??");
}

TEST(Printable, cuts_between_characters_and_says_so) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("a\xC3\xB6\xC3\xB6\xC3\xB6", 6), "a\xC3\xB6...");
  EXPECT_EQ(printable("abc", 2), "..");
  EXPECT_EQ(printable(std::string(1'000'000, 'x'), 100).size(), 100U);
}

}  // namespace
}  // namespace plimsoll
