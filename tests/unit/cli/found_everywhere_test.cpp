// SPDX-License-Identifier: Apache-2.0
// Every flag, key, exit code, variable and file is found by man, by --help and by the tab key: the tables are walked.
#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/setting_table.h"
#include "answer/rl.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/complete.h"
#include "cli/facts.h"
#include "cli/help.h"
#include "cli/manual.h"
#include "cli/program.h"
#include "job/keys.h"

namespace plimsoll::cli {
namespace {

using testing::HasSubstr;

// A page of man(1) as its reader sees it.
std::string plain(std::string_view roff) {
  std::string text;
  for (std::size_t at = 0; at < roff.size(); ++at)
    if (roff[at] != '\\')
      text += roff[at];
    else if (at + 1 < roff.size() && roff[at + 1] == 'f')
      at += 2;
    else if (at + 1 < roff.size() && roff[at + 1] == '&')
      ++at;
  return text;
}

std::vector<std::string> completions(std::vector<std::string> words) {
  std::vector<std::string> found;
  for (const Completion& one : complete(verbs(), words).words) found.push_back(one.text);
  return found;
}

bool completes(const std::vector<std::string>& words, const std::string& wanted) {
  const std::vector<std::string> found = completions(words);
  return std::find(found.begin(), found.end(), wanted) != found.end();
}

TEST(FoundEverywhere, verbs) {
  const std::string help = help_of_program(verbs(), 0);
  const std::string page = plain(manual_of_program(verbs(), "1"));
  for (const Verb* verb : verbs()) {
    const std::string name(verb->name);
    EXPECT_THAT(help, HasSubstr("\n  " + name + " "));
    EXPECT_THAT(page, HasSubstr("plimsoll-" + name));
    EXPECT_TRUE(completes({name.substr(0, 2)}, name)) << name;
    EXPECT_TRUE(completes({"help", name.substr(0, 2)}, name)) << name;
  }
}

TEST(FoundEverywhere, flags) {
  for (const Verb* verb : verbs()) {
    const std::string help = help_of_verb(*verb, true, 0);
    const std::string page = plain(manual_of_verb(*verb, "1"));
    for (const Flag& flag : all_flags(*verb)) {
      const std::string spelling = fmt::format("--{}", flag.name);
      EXPECT_THAT(help, HasSubstr(spelling)) << verb->name;
      EXPECT_THAT(page, HasSubstr(spelling)) << verb->name;
      EXPECT_TRUE(completes({std::string(verb->name), spelling}, spelling)) << verb->name << ' ' << spelling;
    }
  }
}

TEST(FoundEverywhere, values_behind_an_equals_sign_and_in_lists) {
  EXPECT_TRUE(completes({"fit", "--gpu=h100-s"}, "--gpu=h100-sxm-80gb"));
  EXPECT_TRUE(completes({"fit", "--sweep", "recompute_granularity=sel"}, "recompute_granularity=selective"));
  EXPECT_TRUE(completes({"fit", "--sweep", "bf16="}, "bf16=true"));
  EXPECT_TRUE(completes({"fit", "--sweep", "bf16=true,"}, "bf16=true,false"));
  EXPECT_FALSE(completes({"fit", "--sweep", "bf16=true,"}, "bf16=true,true"));
  EXPECT_TRUE(completes({"fit", "--recompute-modules", "mlp,co"}, "mlp,core_attn"));
  EXPECT_TRUE(completes({"fit", "--recompute-modules", "[mlp,co"}, "[mlp,core_attn"));
  EXPECT_TRUE(completes({"plan", "--fix", "tp"}, "tp="));
  EXPECT_TRUE(completions({"fit", "--gpu-memory", ""}).empty());
}

TEST(FoundEverywhere, environment_variables) {
  EXPECT_TRUE(completes({"fit", "--environment.PYTORCH"}, "--environment.PYTORCH_CUDA_ALLOC_CONF"));
  EXPECT_TRUE(completes({"fit", "--environment.PYTORCH_CUDA_ALLOC_CONF", "exp"}, "expandable_segments:"));
  EXPECT_TRUE(completions({"fit", "--environment.NCCL_NVLS_ENABLE", ""}).empty());
}

TEST(FoundEverywhere, nothing_is_offered_twice) {
  for (const Verb* verb : verbs()) {
    std::vector<std::string> flags = completions({std::string(verb->name), "--"});
    std::sort(flags.begin(), flags.end());
    EXPECT_EQ(std::adjacent_find(flags.begin(), flags.end()), flags.end()) << verb->name;
  }
}

TEST(FoundEverywhere, values_of_flags_that_are_a_list) {
  int lists = 0;
  for (const Verb* verb : verbs())
    for (const Flag& flag : all_flags(*verb))
      for (const std::string& value : listed_values(flag.choices)) {
        EXPECT_TRUE(completes({std::string(verb->name), fmt::format("--{}", flag.name), ""}, value)) << flag.name;
        EXPECT_THAT(std::string(flag.help), HasSubstr(value)) << flag.name;
        ++lists;
      }
  EXPECT_GT(lists, 60);
}

TEST(FoundEverywhere, keys_of_a_job_and_their_values) {
  const std::string page = plain(manual_of_program(verbs(), "1"));
  for (const job::KeyInfo& key : job::key_table()) {
    const std::string flag = "--" + replace(key.name, '_', '-');
    EXPECT_THAT(page, HasSubstr("\n.B " + key.name + " "));
    for (const char* verb : {"fit", "plan", "lint", "read", "rl"})
      EXPECT_TRUE(completes({verb, flag}, flag)) << verb << ' ' << flag;
    for (const std::string& value : listed_values(key.type)) {
      EXPECT_TRUE(completes({"fit", flag, ""}, value)) << flag << ' ' << value;
      EXPECT_THAT(page, HasSubstr(value));
    }
  }
}

TEST(FoundEverywhere, keys_of_a_run_of_rl) {
  const std::string page = plain(manual_of_program(verbs(), "1"));
  for (const rl::Key& key : rl::key_table()) {
    const std::string flag = "--" + replace(key.name, '_', '-');
    EXPECT_THAT(page, HasSubstr(fmt::format("\n.B {} ", key.name)));
    EXPECT_TRUE(completes({"rl", flag}, flag)) << flag;
    for (const std::string& value : listed_values(rl::type_name(key)))
      EXPECT_TRUE(completes({"rl", flag, ""}, value)) << flag << ' ' << value;
  }
}

TEST(FoundEverywhere, settings_of_the_allocator) {
  const std::string page = plain(manual_of_program(verbs(), "1"));
  for (const allocator::Setting& setting : allocator::setting_table()) {
    EXPECT_THAT(page, HasSubstr(fmt::format("\n.B {} ", setting.name)));
    EXPECT_TRUE(completes({"replay", "--set", std::string(setting.name)}, fmt::format("{}:", setting.name)))
        << setting.name;
  }
}

TEST(FoundEverywhere, exit_codes_variables_and_files) {
  const std::string help = help_of_program(verbs(), 0);
  const std::string page = plain(manual_of_program(verbs(), "1"));
  for (const auto& entries : {exit_codes(), environment_variables(), files()})
    for (const Entry& entry : entries) {
      EXPECT_THAT(help, HasSubstr(fmt::format("\n  {} ", entry.name)));
      EXPECT_THAT(page, HasSubstr(fmt::format("\n.B {}\n", entry.name)));
    }
  for (const Verb* verb : verbs())
    for (const Entry& code : exit_codes())
      EXPECT_THAT(plain(manual_of_verb(*verb, "1")), HasSubstr(fmt::format("\n.B {}\n", code.name)));
}

TEST(FoundEverywhere, models_and_gpus) {
  EXPECT_TRUE(completes({"fit", "llama3-8"}, "llama3-8b"));
  EXPECT_TRUE(completes({"plan", "--model", "llama3-8"}, "llama3-8b"));
  EXPECT_TRUE(completes({"fit", "--gpu", "h100"}, "h100-sxm-80gb"));
  EXPECT_TRUE(completes({"replay", "--set", "exp"}, "expandable_segments:"));
  EXPECT_TRUE(completes({"lint", "--explain", "R1"}, "R115"));
}

}  // namespace
}  // namespace plimsoll::cli
