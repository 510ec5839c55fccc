// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <sstream>

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, display_width(line));
  return widest;
}

TEST(Table, aligns_columns_under_their_titles) {
  Table table({{"part"}, {"GiB", Align::kRight}});
  table.add_row({"parameters", "16.42"});
  table.add_row({"free", "1.10"});

  EXPECT_EQ(table.to_text(0, false),
            "part          GiB\n"
            "----------  -----\n"
            "parameters  16.42\n"
            "free         1.10\n");
}

TEST(Table, draws_a_rule_before_a_sum) {
  Table table({{"part"}, {"GiB", Align::kRight}});
  table.add_row({"a", "1"});
  table.add_rule();
  table.add_row({"sum", "1"});

  EXPECT_EQ(table.to_text(0, false),
            "part  GiB\n"
            "----  ---\n"
            "a       1\n"
            "----  ---\n"
            "sum     1\n");
}

TEST(Table, leaves_no_blanks_at_the_end_of_a_line) {
  Table table({{"a"}, {"b"}});
  table.add_row({"long first cell", ""});
  table.add_row({"x"});

  EXPECT_EQ(table.to_text(0, false).find(" \n"), std::string::npos);
}

TEST(Table, wraps_only_columns_that_shrink_and_keeps_every_word) {
  Table table({{"name"}, {"meaning", Align::kLeft, true}});
  table.add_row({"a_name_that_never_wraps", "a rather long sentence with many short words in it"});

  const std::string text = table.to_text(45, false);

  EXPECT_LE(widest_line(text), 45U);
  EXPECT_NE(text.find("a_name_that_never_wraps"), std::string::npos);
  for (const char* word : {"rather", "sentence", "words", "it"}) EXPECT_NE(text.find(word), std::string::npos);
}

TEST(Table, breaks_no_setting_of_the_allocator) {
  Table table({{"setting", Align::kLeft, true}, {"reserved", Align::kRight}});
  table.add_row({"garbage_collection_threshold:0.8,expandable_segments:True", "7.22"});
  table.add_row({"roundup_power2_divisions:[256:1,512:2,1024:4]", "7.34"});

  const std::string text = table.to_text(30, false);

  for (const char* whole : {"garbage_collection_threshold:0.8,", "expandable_segments:True", "512:2,"})
    EXPECT_NE(text.find(whole), std::string::npos) << text;
}

TEST(Table, counts_characters_and_not_bytes) {
  Table table({{"x"}, {"y"}});
  table.add_row({"\xC3\xA9t\xC3\xA9", "1"});
  table.add_row({"abcd", "2"});

  EXPECT_NE(table.to_text(0, false).find("\xC3\xA9t\xC3\xA9   1\n"), std::string::npos);
}

TEST(Table, colour_does_not_move_columns) {
  Table table({{"verdict"}, {"GiB", Align::kRight}});
  table.add_row({Cell{"fits", Style::kGood}, "1"});

  EXPECT_NE(table.to_text(0, true).find("\x1b[1;32mfits\x1b[0m       1\n"), std::string::npos)
      << table.to_text(0, true);
}

TEST(Wrap, cuts_a_word_that_is_longer_than_a_line) {
  EXPECT_EQ(wrap("abcdefgh ij", 3), (std::vector<std::string>{"abc", "def", "gh", "ij"}));
}

TEST(FoldProse, goes_on_below_and_leaves_tables_and_flags_whole) {
  EXPECT_EQ(fold_prose("  one two three\nfour", 9), "  one two\n    three\nfour");
  EXPECT_EQ(fold_prose("one two three", 0), "one two three");
  for (const char* whole :
       {"part of it   12.01 GiB\n", "set --micro-batch-size 1 and so on\n", "key = [1, 2, 3, 4, 5]\n"})
    EXPECT_EQ(fold_prose(whole, 12), whole);
  EXPECT_EQ(fold_prose("\x1b[1;32mfits:\x1b[0m here it is", 10), "\x1b[1;32mfits:\x1b[0m here\n  it is");
  EXPECT_EQ(fold_prose("abcdefghijkl", 5), "abcdefghijkl");
}

TEST(Wrap, gives_one_empty_line_for_no_text) { EXPECT_EQ(wrap("", 10), (std::vector<std::string>{""})); }

}  // namespace
}  // namespace plimsoll::cli
