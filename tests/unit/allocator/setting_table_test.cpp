// SPDX-License-Identifier: Apache-2.0
// The table of settings is all that parser, printer, guesses, recorded settings and searches know.
#include "allocator/setting_table.h"

#include <set>

#include <gtest/gtest.h>

#include "base/text.h"
#include "support.h"

namespace plimsoll::allocator {
namespace {

constexpr Version kNewest{1000, 0};

// A value of every setting that has an effect and is not its default.
std::string_view sample(const Setting& setting) {
  for (const std::string_view values : {setting.to_search, setting.to_show})
    if (!values.empty()) return values.substr(0, values.find(','));
  for (const std::string_view value : {"True", "64", "0.5", "cudaMallocAsync"}) {
    Settings settings;
    if (setting.parse(setting.name, value, settings)) return value;
  }
  return {};
}

TEST(SettingTable, names_are_there_once_and_lead_to_their_row) {
  std::set<std::string_view> names;
  for (const Setting& setting : setting_table()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_EQ(find_setting(setting.name), &setting);
    EXPECT_FALSE(setting.doc.empty()) << setting.name;
    EXPECT_EQ(setting.parse == nullptr, setting.print == nullptr) << setting.name;
  }
  EXPECT_EQ(find_setting("max_split_size"), nullptr);
}

TEST(SettingTable, what_is_printed_reads_back) {
  for (const Setting& setting : setting_table()) {
    if (setting.parse == nullptr) continue;
    const std::string text = std::string(setting.name) + ":" + std::string(sample(setting));
    const auto parsed = parse_settings(text, kNewest);
    ASSERT_TRUE(parsed) << text << ": " << to_string(parsed.error());
    EXPECT_EQ(print_settings(*parsed), text);
  }
  EXPECT_EQ(print_settings(Settings{}), "");
}

TEST(SettingTable, every_value_to_try_is_one_that_pytorch_takes) {
  for (const Setting& setting : setting_table())
    for (const std::string_view values : {setting.to_show, setting.to_search, setting.to_combine})
      for (const std::string_view value : split(values, ',')) {
        if (values.empty()) continue;
        Settings settings;
        ASSERT_NE(setting.parse, nullptr) << setting.name;
        EXPECT_TRUE(setting.parse(setting.name, value, settings)) << setting.name << ":" << value;
      }
}

TEST(SettingTable, a_misspelt_name_leads_to_the_right_one) {
  for (const Setting& setting : setting_table()) {
    const std::string misspelt{setting.name.substr(0, setting.name.size() - 1)};
    const auto parsed = parse_settings(misspelt + ":1", kNewest);
    ASSERT_FALSE(parsed) << misspelt;
    EXPECT_EQ(parsed.error().hint, "did you mean " + std::string(setting.name) + "?");
  }
}

TEST(SettingTable, a_release_before_the_first_that_has_it_refuses_the_name) {
  for (const Setting& setting : setting_table()) {
    if (setting.since == Version{2, 1}) continue;
    const std::string text = std::string(setting.name) + ":" + std::string(setting.parse ? sample(setting) : "True");
    EXPECT_TRUE(parse_settings(text, setting.since)) << text;
    const auto older = parse_settings(text, Version{setting.since.major, setting.since.minor - 1});
    ASSERT_FALSE(older) << text;
    EXPECT_NE(older.error().message.find("exists from PyTorch"), std::string::npos);
  }
}

TEST(SettingTable, a_snapshot_says_what_was_in_force) {
  Settings settings = test::settings("expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.5");
  EXPECT_TRUE(take_recorded("expandable_segments", "False", settings));
  EXPECT_TRUE(take_recorded("max_split_size", "-1", settings));
  EXPECT_TRUE(take_recorded("garbage_collection_threshold", "0", settings));
  EXPECT_TRUE(take_recorded("a_key_of_another_release", "7", settings));
  EXPECT_EQ(print_settings(settings), "");
  EXPECT_TRUE(take_recorded("max_split_size", "134217728", settings));
  EXPECT_EQ(print_settings(settings), "max_split_size_mb:128");
  EXPECT_FALSE(take_recorded("roundup_power2_divisions", "[1:3]", settings)) << "3 is no power of two";
}

}  // namespace
}  // namespace plimsoll::allocator
