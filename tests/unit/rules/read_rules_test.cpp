// SPDX-License-Identifier: Apache-2.0
// The reader of rule files, the checker and the texts that it fills in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/rules.h"
#include "rules/support.h"

namespace plimsoll::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<RuleSet> read_text(const std::string& text) {
  const std::string_view view = text;
  return read_rules({&view, 1});
}

std::string error_of(const std::string& text) {
  const auto set = read_text(text);
  return set ? "" : to_string(set.error());
}

constexpr std::string_view kRule = R"(
[[rule]]
id = "T1"
frameworks = ["megatron-lm"]
when = "tp > 1"
prints = "TP ({tp}) is {2 * tp} {{halves}}"
wrong = "{tp} on {gpu}"
fix = "use 1"
set = {tensor_model_parallel_size = 1}
)";

TEST(ReadRules, holes_are_expressions_and_logs_are_searched_for_what_is_between_them) {
  const auto set = read_text(std::string(kRule));
  ASSERT_TRUE(set.has_value()) << to_string(set.error());
  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  job.parallel.tensor = 4;

  const std::vector<Violation> violations = check(*set, job);

  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations[0].wrong, "4 on none");
  EXPECT_THAT(violations[0].prints, ElementsAre("TP (4) is 8 {halves}"));
  EXPECT_THAT(set->rules()[0].printed[0].literals, ElementsAre("TP (", ") is ", " {halves}"));
  EXPECT_EQ(set->rules()[0].fix_key, "tensor_model_parallel_size");
  EXPECT_EQ(set->rules()[0].fix_value, "1");
  EXPECT_THAT(set->rules()[0].keys, ElementsAre("tp"));
}

TEST(ReadRules, a_rule_of_another_framework_is_not_checked) {
  const auto set = read_text(std::string(kRule));
  ASSERT_TRUE(set.has_value());
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.parallel.tensor = 4;

  EXPECT_TRUE(check(*set, job).empty());
}

TEST(ReadRules, mistakes_are_named) {
  constexpr const char* kStart = "[[rule]]\nid = 'T'\nframeworks = 'all'\n";
  const auto rule = [&](const std::string& rest) { return std::string(kStart) + rest; };
  EXPECT_THAT(error_of("[rules]\n"), HasSubstr("unknown key 'rules', wanted [facts] or [[rule]]"));
  EXPECT_THAT(error_of("[facts]\nx = 'integer'\n"), HasSubstr("facts.x: found 'integer', wanted boolean, number"));
  EXPECT_THAT(error_of("[facts]\nx = {type = 'text', megatron = 1, other = 2}\n"), HasSubstr("unknown key 'other'"));
  EXPECT_THAT(error_of("[[rule]]\nfix = 'f'\n"), HasSubstr("id is missing"));
  EXPECT_THAT(error_of("[[rule]]\nid = 'T'\n"), HasSubstr("T: frameworks is missing"));
  EXPECT_THAT(error_of("[[rule]]\nid = 'T'\nframeworks = 'jax'\n"), HasSubstr("found 'jax', wanted all, megatron-lm"));
  EXPECT_THAT(error_of(rule("wrong = 'w'\nfix = 'f'\n")), HasSubstr("when is missing"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nfix = 'f'\n")), HasSubstr("wrong is missing"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = 'w'\n")), HasSubstr("fix is missing"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = '{tpp}'\nfix = 'f'\n")), HasSubstr("unknown fact 'tpp'"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = '{tp'\nfix = 'f'\n")), HasSubstr("'{' without '}'"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = 'tp}'\nfix = 'f'\n")), HasSubstr("'}' without '{'"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = 'w'\nfix = 'f'\nhint = 'h'\n")), HasSubstr("unknown key 'hint'"));
  EXPECT_THAT(error_of(rule("severity = 'fatal'\n")), HasSubstr("found 'fatal', wanted error or warning"));
  EXPECT_THAT(error_of(rule("checked_by = 'why'\nwhen = 'tp > 1'\n")), HasSubstr("has no condition"));
  EXPECT_THAT(error_of(rule("checked_by = 'me'\n")), HasSubstr("checked_by: found 'me'"));
  EXPECT_THAT(error_of(rule("when = 'tp > 1'\nwrong = 'w'\nfix = 'f'\nset = 1\n")), HasSubstr("set: wanted one key"));
  EXPECT_THAT(error_of(std::string(kRule) + std::string(kRule)), HasSubstr("the rule T1 is given twice"));
  EXPECT_THAT(error_of("[[rule]\n"), HasSubstr("line"));
}

TEST(Checker, answers_for_candidates_that_differ_in_fields) {
  const auto read = read_all({{"job.toml", *read_file(data_path("megatron-lm.toml"))}});
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  const Checker checker(catalogue(), read->job);
  job::Job candidate = read->job;
  EXPECT_FALSE(checker.violates_any_error(candidate));

  candidate.parallel.virtual_pipeline = 3;  // 16 layers per rank
  EXPECT_TRUE(checker.violates_any_error(candidate));
  candidate.parallel.virtual_pipeline = 4;
  candidate.parallel.overlap_p2p = true;
  EXPECT_FALSE(checker.violates_any_error(candidate));
  candidate.offload.activations = true;
  EXPECT_TRUE(checker.violates_any_error(candidate));
}

TEST(Checker, check_and_violates_any_error_agree_on_every_example) {
  for (const Rule& rule : catalogue().rules()) {
    if (rule.checked_by != CheckedBy::kJob) continue;
    const auto read = read_all({{"job.json", with_example(base_of(rule, rule.frameworks.front()), rule.breaks)}});
    ASSERT_TRUE(read.has_value()) << rule.id;
    const Checker checker(catalogue(), read->job);
    bool any = false;
    for (const std::uint16_t index : checker.check(read->job))
      any = any || catalogue().rules()[index].severity == Severity::kError;
    EXPECT_EQ(checker.violates_any_error(read->job), any) << rule.id;
  }
}

TEST(Checker, a_job_without_a_model_or_gpus_can_be_checked) {
  for (const auto framework :
       {job::Framework::kMegatronLm, job::Framework::kMegatronBridge, job::Framework::kTransformers,
        job::Framework::kFsdp2, job::Framework::kDeepSpeed, job::Framework::kTorchtitan}) {
    job::Job job = job::defaults_for(framework);
    job.cluster.gpus = 0;
    EXPECT_FALSE(Checker(catalogue(), job).violates_any_error(job)) << job::name_of(framework);
  }
}

}  // namespace
}  // namespace plimsoll::rules
