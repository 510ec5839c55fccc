// SPDX-License-Identifier: Apache-2.0
// Every model of the catalogue: its counts come out of its config exactly, and its names find it.
#include "model/catalog.h"

#include <cctype>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

using testing::HasSubstr;

TEST(Catalog, holds_211_models) { EXPECT_EQ(catalog_entries().size(), 211U); }

TEST(Catalog, every_count_follows_from_the_config) {
  for (const CatalogEntry& entry : catalog_entries()) {
    const Result<Architecture> model = find_model(entry.name);
    ASSERT_TRUE(model) << entry.name << ": " << to_string(model.error());
    const Parameters count = count_parameters(*model);
    EXPECT_EQ(count.total, entry.parameters) << entry.name;
    EXPECT_EQ(count.active, entry.active_parameters == 0 ? entry.parameters : entry.active_parameters) << entry.name;
    EXPECT_EQ(count.mtp, entry.mtp_parameters) << entry.name;
    EXPECT_EQ(model->name, entry.name);
    EXPECT_FALSE(entry.source.empty()) << entry.name;
  }
}

TEST(Catalog, every_alias_finds_its_own_model_with_and_without_owner_in_any_case) {
  for (const CatalogEntry& entry : catalog_entries()) {
    for (const std::string& alias : entry.aliases) {
      const std::string bare{split(alias, '/').back()};
      for (const std::string& spelling : {alias, lower(alias), bare, lower(bare)}) {
        const Result<Architecture> model = find_model(spelling);
        ASSERT_TRUE(model) << spelling;
        EXPECT_EQ(model->name, entry.name) << spelling;
      }
    }
  }
}

// A name as it is written in the catalogue is read alone, any other spelling is looked up among all.
TEST(Catalog, a_name_in_capitals_finds_the_same_as_the_name_itself) {
  for (const CatalogEntry& entry : catalog_entries()) {
    std::string capitals = entry.name;
    for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    ASSERT_NE(capitals, entry.name);
    const Result<Architecture> one = find_model(entry.name);
    const Result<Architecture> other = find_model(capitals);
    ASSERT_TRUE(one && other) << entry.name;
    EXPECT_EQ(one->name, other->name);
    EXPECT_EQ(one->rope_base, other->rope_base) << entry.name;
    EXPECT_EQ(one->layers, other->layers) << entry.name;
    EXPECT_EQ(count_parameters(*one).total, count_parameters(*other).total) << entry.name;
  }
  EXPECT_EQ(find_model("llama-13b\", \"aliases\": [\"huggyllama/llama-7b")->name, "llama-7b")
      << "the last part of a path";
}

TEST(Catalog, every_name_and_alias_belongs_to_one_model) {
  std::map<std::string, std::string> owner;
  for (const CatalogEntry& entry : catalog_entries()) {
    std::vector<std::string> names = entry.aliases;
    names.push_back(entry.name);
    for (const std::string& name : names) {
      const auto [at, is_new] = owner.emplace(lower(name), entry.name);
      EXPECT_TRUE(is_new) << name << " is both " << at->second << " and " << entry.name;
    }
  }
}

TEST(Catalog, releases_of_one_shape_keep_their_own_rope_theta) {
  EXPECT_EQ(find_model("llama3-8b")->rope_base, 500'000);
  EXPECT_EQ(find_model("qwen3-4b")->rope_base, 1'000'000);
  EXPECT_EQ(find_model("Qwen/Qwen3-4B-Instruct-2507")->rope_base, 5'000'000);
  EXPECT_EQ(find_model("qwen3-4b-instruct-2507")->rope_base, 5'000'000);
}

TEST(Catalog, spelling_of_separators_does_not_matter) {
  EXPECT_EQ(find_model("LLAMA3.1_405B")->name, "llama3.1-405b");
  EXPECT_EQ(find_model("DeepSeekV3")->name, "deepseek-v3");
  EXPECT_EQ(find_model("GPT OSS 120B")->name, "gpt-oss-120b");
  EXPECT_EQ(find_model("opt-1.3b")->name, "opt-1.3b");
  EXPECT_EQ(find_model("opt-13b")->name, "opt-13b");
}

TEST(Catalog, an_unknown_name_is_an_error_that_suggests_near_ones) {
  const Result<Architecture> typo = find_model("lama3-70b");
  ASSERT_FALSE(typo);
  EXPECT_THAT(typo.error().message, HasSubstr("'lama3-70b' is not in the catalogue"));
  EXPECT_THAT(typo.error().hint, HasSubstr("llama3-70b"));

  EXPECT_THAT(find_model("llama3").error().hint, HasSubstr("llama3-8b"));
  EXPECT_THAT(find_model("zzzzzzzzzzzzzzzz").error().hint, HasSubstr("config.json"));
  EXPECT_FALSE(find_model(""));
  EXPECT_FALSE(find_model("-/-"));
  EXPECT_FALSE(find_model(std::string(1 << 20, 'a')));
}

}  // namespace
}  // namespace plimsoll::model
