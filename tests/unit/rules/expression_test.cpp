// SPDX-License-Identifier: Apache-2.0
#include "rules/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/rules.h"
#include "rules/support.h"

namespace plimsoll::rules {
namespace {

using testing::HasSubstr;

// A set of one rule, so that conditions see every fact.
RuleSet set_of(const std::string& when) {
  const std::string text = "[facts]\nunknown = \"number\"\nte_version = \"version\"\nsizes = \"list\"\n[[rule]]\n" +
                           std::string("id = \"T\"\nframeworks = \"all\"\nwrong = \"w\"\nfix = \"f\"\nwhen = '''") +
                           when + "'''\n";
  const std::string_view view = text;
  auto set = read_rules({&view, 1});
  EXPECT_TRUE(set.has_value()) << when << ": " << (set ? "" : to_string(set.error()));
  return set ? *std::move(set) : RuleSet{};
}

bool holds_for(const job::Job& job, const std::string& when) {
  const RuleSet set = set_of(when);
  return !check(set, job).empty();
}

std::string error_of(const std::string& when) {
  const std::string text =
      "[[rule]]\nid = \"T\"\nframeworks = \"all\"\nwrong = \"w\"\nfix = \"f\"\nwhen = '''" + when + "'''\n";
  const std::string_view view = text;
  const auto set = read_rules({&view, 1});
  return set ? "" : to_string(set.error());
}

job::Job some_job() {
  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  job.cluster.gpus = 16;
  job.parallel.tensor = 4;
  job.batch.seq_length = 100;
  job.stated["te_version"] = "2.10";
  job.stated["sizes"] = "[2 8]";
  job.environment["NAME"] = "a,b:True";
  return job;
}

TEST(Expression, computes_with_integers_and_rounds_down) {
  const job::Job job = some_job();

  EXPECT_TRUE(holds_for(job, "7 / 2 == 3 and -7 / 2 == -4 and -7 % 3 == 2"));
  EXPECT_TRUE(holds_for(job, "1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and 10 - 2 - 3 == 5"));
  EXPECT_TRUE(holds_for(job, "lcm(4, 6) == 12 and min(2, 3) == 2 and max(2, 3) == 3"));
  EXPECT_TRUE(holds_for(job, "5e8 == 500000000 and 0.5 < 1"));
}

TEST(Expression, precedence_is_not_then_and_then_or) {
  const job::Job job = some_job();

  EXPECT_TRUE(holds_for(job, "true or false and false"));
  EXPECT_FALSE(holds_for(job, "(true or false) and false"));
  EXPECT_TRUE(holds_for(job, "not false and true"));
  EXPECT_FALSE(holds_for(job, "not (false or true)"));
  EXPECT_TRUE(holds_for(job, "not tp == 3"));
}

TEST(Expression, reads_facts_lists_versions_and_the_environment) {
  const job::Job job = some_job();

  EXPECT_TRUE(holds_for(job, "world_size % tp == 0 and seq_length == 100"));
  EXPECT_TRUE(holds_for(job, "framework in ['megatron-lm', \"megatron-bridge\"] and tp not in [1, 2]"));
  EXPECT_TRUE(holds_for(job, "product(sizes) == 16 and len(sizes) == 2 and '8' in sizes"));
  EXPECT_TRUE(holds_for(job, "te_version >= v2.10 and te_version > v2.9 and te_version < v2.10.1"));
  EXPECT_TRUE(holds_for(job, "contains(env.NAME, 'b:True') and set(env.NAME) and not set(env.OTHER)"));
  EXPECT_TRUE(holds_for(job, "subset(sizes, [2, 8, 9]) and intersects(sizes, [8]) and not intersects(sizes, [9])"));
}

TEST(Expression, what_is_not_known_violates_nothing) {
  const job::Job job = some_job();

  for (const char* when : {"unknown == 1", "unknown != 1", "unknown < 1", "unknown >= 1", "unknown % 2 != 0",
                           "world_size % (unknown * 2) != 0", "unknown in [1]", "unknown not in [1]", "1 / 0 == 0",
                           "1 / 0 != 0", "env.OTHER != '1'", "4503599627370496 * 4503599627370496 > 0"})
    EXPECT_FALSE(holds_for(job, when)) << when;
  EXPECT_TRUE(holds_for(job, "not set(unknown) and default(unknown, 3) == 3"));
}

TEST(Expression, errors_name_the_position_and_what_was_wanted) {
  struct Case {
    const char* when;
    const char* message;
  };
  for (const Case& c :
       {Case{"tp >", "at 5: wanted a value, found the end"},
        Case{"tp > 1)", "at 7: wanted an operator or the end, found ')'"}, Case{"(tp > 1", "wanted ')'"},
        Case{"tp & 1", "at 4: '&' means nothing here"}, Case{"tpp > 1", "at 1: unknown fact 'tpp'"},
        Case{"given.tpp", "unknown fact 'given.tpp'"}, Case{"sets(tp)", "at 1: unknown function 'sets'"},
        Case{"framework > 1", "at 11: '>' cannot compare a text with a number"},
        Case{"tp and true", "at 1: 'and' wants a boolean, found a number"},
        Case{"not framework", "'not' wants a boolean, found a text"}, Case{"tp + framework == 1", "'+' wants numbers"},
        Case{"1 in tp", "'in' wants a list, found a number"}, Case{"tp not 1", "wanted 'in' after 'not'"},
        Case{"len(tp) > 1", "len() wants a list, found a number"}, Case{"'abc", "a text that does not end"},
        Case{"[tp]", "wanted a text or a number in the list"}, Case{"tp + 1", "wanted a boolean, found a number"}})
    EXPECT_THAT(error_of(c.when), HasSubstr(c.message)) << c.when;
}

TEST(Expression, depth_and_length_are_bounded) {
  EXPECT_THAT(error_of(std::string(1000, '(') + "true" + std::string(1000, ')')), HasSubstr("nested too deeply"));
  std::string nots;
  for (int i = 0; i < 500; ++i) nots += "not ";
  EXPECT_THAT(error_of(nots + "true"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(std::string(500, '-') + "1 == 1"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(std::string(9000, ' ') + "true"), HasSubstr("bytes, wanted at most"));
  std::string sums = "1";
  for (int i = 0; i < 1500; ++i) sums += "+1";
  EXPECT_THAT(error_of(sums + " == 1"), HasSubstr("too long"));
}

TEST(Version, orders_like_the_version) {
  EXPECT_EQ(version_of("2.10").integer, 2'010'000);
  EXPECT_LT(version_of("2.9.1").integer, version_of("2.10").integer);
  EXPECT_EQ(version_of("2.7.0.dev0").integer, version_of("2.7").integer);
  EXPECT_EQ(version_of("v0.16.0rc1").integer, version_of("0.16").integer);
  EXPECT_EQ(version_of(" 2.9.0+cu130").integer, version_of("2.9").integer);
  EXPECT_TRUE(version_of("main").is_none());
  EXPECT_TRUE(version_of("").is_none());
}

}  // namespace
}  // namespace plimsoll::rules
