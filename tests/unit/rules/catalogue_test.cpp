// SPDX-License-Identifier: Apache-2.0
// Every rule of the catalogue against its own examples, and all of them against jobs that ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"
#include "job/keys.h"
#include "rules/rules.h"
#include "rules/support.h"
#include "truth/record.h"

namespace plimsoll::rules {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

std::string source_path(const std::string& name) { return std::string(PLIMSOLL_SOURCE_DIR) + "/" + name; }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Catalogue, reads_without_an_error) {
  std::vector<std::string> texts;
  for (const char* part : {"facts", "parallel", "activations", "experts", "precision", "state", "others", "advice"})
    texts.push_back(text_of(source_path(std::string("catalog/rules-") + part + ".toml")));
  const std::vector<std::string_view> views(texts.begin(), texts.end());

  const auto rules = read_rules(views);

  ASSERT_TRUE(rules.has_value()) << to_string(rules.error());
}

TEST(Catalogue, holds_the_307_rules_of_the_facts_once_each) {
  std::set<std::string> ids;
  for (const Rule& rule : catalogue().rules())
    if (rule.id.front() == 'R') ids.insert(rule.id);

  EXPECT_EQ(ids.size(), 307U);
  EXPECT_EQ(*ids.begin(), "R001");
  EXPECT_EQ(*ids.rbegin(), "R307");
}

TEST(Catalogue, every_rule_says_what_a_log_or_a_condition_shows) {
  for (const Rule& rule : catalogue().rules()) {
    EXPECT_EQ(rule.condition.empty(), rule.checked_by == CheckedBy::kLog) << rule.id;
    if (rule.checked_by == CheckedBy::kLog) {
      EXPECT_FALSE(rule.prints.empty()) << rule.id;
    }
  }
}

TEST(Catalogue, every_key_of_a_rule_is_one_that_the_readers_of_its_frameworks_accept) {
  for (const Rule& rule : catalogue().rules()) {
    for (const Instruction& instruction : rule.condition.code()) {
      if (instruction.op != Op::kFact) continue;
      const Fact& fact = catalogue().facts().facts()[instruction.argument];
      if (fact.source != Fact::Source::kDeclared) continue;
      const bool known = std::any_of(rule.frameworks.begin(), rule.frameworks.end(), [&fact](job::Framework framework) {
        return job::find_alias(framework, fact.key) != nullptr;
      });
      EXPECT_TRUE(known) << rule.id << " reads " << fact.key;
    }
  }
}

TEST(Catalogue, every_fix_sets_a_key_that_exists) {
  for (const Rule& rule : catalogue().rules()) {
    if (rule.fix_key.empty() || rule.fix_key.starts_with("environment.")) continue;
    const bool known = job::is_key(rule.fix_key) || job::find_alias(rule.frameworks.front(), rule.fix_key) != nullptr;
    EXPECT_TRUE(known) << rule.id << " sets " << rule.fix_key;
  }
}

// Calls back for every rule that a job can violate and every framework that it is a rule of.
template <class Visit>
void for_each_checked_rule(const Visit& visit) {
  for (const Rule& rule : catalogue().rules())
    if (rule.checked_by == CheckedBy::kJob)
      for (const job::Framework framework : rule.frameworks) visit(rule, framework);
}

std::vector<std::string> violated_by(const Rule& rule, job::Framework framework, const Example& example) {
  const auto read = read_all({{"job.json", with_example(base_of(rule, framework), example)}});
  EXPECT_TRUE(read.has_value()) << rule.id << ": " << (read ? "" : to_string(read.error()));
  return read ? violated_ids(read->job) : std::vector<std::string>{};
}

TEST(Catalogue, the_breaking_example_of_every_rule_violates_it) {
  for_each_checked_rule([](const Rule& rule, job::Framework framework) {
    ASSERT_FALSE(rule.breaks.empty()) << rule.id;
    EXPECT_THAT(violated_by(rule, framework, rule.breaks), Contains(rule.id))
        << with_example(base_of(rule, framework), rule.breaks);
  });
}

TEST(Catalogue, the_other_example_of_every_rule_does_not_violate_it) {
  for_each_checked_rule([](const Rule& rule, job::Framework framework) {
    EXPECT_THAT(violated_by(rule, framework, rule.holds), Not(Contains(rule.id)))
        << with_example(base_of(rule, framework), rule.holds);
  });
}

TEST(Catalogue, a_fix_of_one_key_mends_the_breaking_example) {
  for_each_checked_rule([](const Rule& rule, job::Framework framework) {
    if (rule.fix_key.empty()) return;
    Example mended = rule.breaks;
    mended.emplace_back(rule.fix_key, document::parse_scalar(rule.fix_value));
    EXPECT_THAT(violated_by(rule, framework, mended), Not(Contains(rule.id)))
        << with_example(base_of(rule, framework), mended);
  });
}

bool says(const std::string& text, const Message& message) {
  std::size_t at = 0;
  for (const std::string& literal : message.literals) {
    at = lower(text).find(lower(trim(literal)), at);
    if (at == std::string::npos) return false;
    at += trim(literal).size();
  }
  return true;
}

bool is_in_words_of_the_catalogue(const std::string& text) {
  for (const Rule& rule : catalogue().rules()) {
    if (says(text, rule.wrong)) return true;
    for (const Message& message : rule.printed)
      if (says(text, message)) return true;
  }
  return false;
}

// Where resolving a job finds the mistake itself, before any rule is asked, it says it in the words that the
// catalogue has for it. What only this program wants to know (a sequence that a rank cannot hold) has words of its own.
TEST(Catalogue, a_job_that_does_not_hold_together_is_refused_in_the_words_of_a_rule) {
  const std::set<std::string> ours = {"sequence_parallel splits the", "contradicts itself",
                                      "the key/value latent rank is 0", "is not a model of mixers"};
  std::size_t compared = 0;
  for_each_checked_rule([&](const Rule& rule, job::Framework framework) {
    if (framework != job::Framework::kMegatronLm && framework != job::Framework::kMegatronBridge) return;
    const auto read = read_all({{"job.json", with_example(base_of(rule, framework), rule.breaks)}});
    if (!read) return;
    for (const job::Problem& problem : read->problems) {
      const std::string text = to_string(problem.error);
      const bool own = std::any_of(ours.begin(), ours.end(),
                                   [&text](const std::string& words) { return text.find(words) != std::string::npos; });
      if (!problem.key.empty() || own) continue;
      ++compared;
      EXPECT_TRUE(is_in_words_of_the_catalogue(text)) << rule.id << ": " << text;
    }
  });
  EXPECT_GT(compared, 20U);
}

TEST(Catalogue, base_jobs_violate_no_rule) {
  for (const auto& entry : std::filesystem::directory_iterator(data_path(""))) {
    if (entry.path().extension() != ".toml") continue;
    const auto read = read_all({{entry.path(), text_of(entry.path())}});
    ASSERT_TRUE(read.has_value()) << entry.path() << to_string(read.error());
    EXPECT_THAT(read->problems, IsEmpty()) << entry.path() << to_string(read->problems.front().error);
    EXPECT_THAT(violated_ids(read->job), IsEmpty()) << entry.path();
  }
}

TEST(Catalogue, the_examples_violate_no_error_rule) {
  const std::vector<std::vector<std::string>> jobs = {
      {"llama3-70b.toml"},
      {"megatron-lm/llama3-8b.sh"},
      {"megatron-bridge/overrides.py"},
      {"transformers/config.json", "transformers/training_args.json"},
      {"transformers/config.json", "transformers/training_args.json", "transformers/ds_zero3.json"},
      {"transformers/config.json", "transformers/training_args.json", "transformers/accelerate_fsdp.yaml"},
      {"torchtitan/llama3-8b.toml"},
  };
  for (const auto& names : jobs) {
    std::vector<job::InputFile> files;
    for (const std::string& name : names)
      files.push_back({source_path("examples/" + name), text_of(source_path("examples/" + name))});
    job::ReadOptions options;
    if (names.front() != "llama3-70b.toml") options.gpu = "h100";
    if (names.front() != "llama3-70b.toml") options.gpus = names.front().starts_with("megatron-bridge") ? 64 : 8;
    const auto read = read_all(files, options);
    ASSERT_TRUE(read.has_value()) << names.front() << to_string(read.error());
    EXPECT_THAT(violated_ids(read->job, true), IsEmpty()) << join(names, " ");
  }
}

// Runs that were measured were not refused: a violation is a flaw of the rule.
TEST(Catalogue, recorded_runs_violate_no_error_rule) {
  for (const char* name :
       {"megatron-golden.json", "megatron-h200.json", "megatron-h200-blind.json", "transformers-h200.json",
        "transformers-h200-blind.json", "transformers-h200-more.json", "throughput-published.json"}) {
    const std::string path = source_path(std::string("tests/data/truth/") + name);
    const auto file = truth::read_records(path, text_of(path));
    ASSERT_TRUE(file.has_value()) << name << to_string(file.error());
    // These recordings built Megatron core's layers around PyTorch's own attention, without the command line.
    const bool is_core_alone = std::string_view(name).starts_with("megatron-h200");
    // These tables do not say how weights are gathered; those of 2025 are from before Megatron core 0.16.
    const bool is_published = std::string_view(name).starts_with("throughput");
    for (const truth::Record& record : file->records) {
      if (!record.skip.empty()) continue;
      job::Job job = record.job;
      if (is_published && record.id.find("-25.") != std::string::npos) job.stated["megatron_version"] = "0.15";
      for (const std::string& id : violated_ids(job, true)) {
        if (is_published && id == "R204") continue;
        const std::string& source = catalogue().find(id)->source;
        if (is_core_alone && (source.starts_with("training/arguments.py") || id == "R075")) continue;
        ADD_FAILURE() << name << " " << record.id << " violates " << id;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::rules
