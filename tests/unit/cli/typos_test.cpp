// SPDX-License-Identifier: Apache-2.0
// A word with one letter wrong gets the right one back, whatever the word is: the tables are walked.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answer/listing.h"
#include "answer/rl.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/job_keys.h"
#include "cli/program.h"
#include "job/keys.h"

namespace plimsoll::cli {
namespace {

using testing::HasSubstr;

const std::string kRun = PLIMSOLL_SOURCE_DIR "/examples/rl/telescope.toml";

// What the program says on stderr.
std::string said(const std::vector<std::string>& words) {
  char* text = nullptr;
  std::size_t size = 0;
  Console console;
  console.err = open_memstream(&text, &size);
  console.out = std::fopen("/dev/null", "w");
  EXPECT_GT(run_program(words, console), 1) << fmt::format("{}", join(words, " "));
  std::fclose(console.err);
  std::fclose(console.out);
  std::string result(text, size);
  std::free(text);
  return result;
}

// The word with a letter too many.
std::string mistyped(std::string_view word) {
  std::string wrong(word);
  wrong.insert(wrong.size() / 2, 1, 'q');
  return wrong;
}

TEST(Typos, in_verbs) {
  for (const Verb* verb : verbs()) {
    EXPECT_THAT(said({mistyped(verb->name)}), HasSubstr(fmt::format("did you mean {}?", verb->name)));
    EXPECT_THAT(said({"help", mistyped(verb->name)}), HasSubstr(fmt::format("did you mean {}?", verb->name)));
    EXPECT_THAT(said({"man", mistyped(verb->name)}), HasSubstr(fmt::format("did you mean {}?", verb->name)));
  }
}

TEST(Typos, in_flags_of_every_verb) {
  for (const Verb* verb : verbs())
    for (const Flag& flag : all_flags(*verb))
      EXPECT_THAT(said({std::string(verb->name), "--" + mistyped(flag.name)}),
                  HasSubstr(fmt::format("did you mean --{}?", flag.name)));
}

TEST(Typos, in_values_of_flags_that_are_a_list) {
  for (const Verb* verb : verbs())
    for (const Flag& flag : all_flags(*verb))
      for (const std::string& value : listed_values(flag.choices))
        EXPECT_THAT(said({std::string(verb->name), fmt::format("--{}", flag.name), mistyped(value)}),
                    HasSubstr(fmt::format("did you mean {}?", value)));
}

TEST(Typos, in_keys_of_a_job) {
  for (const job::KeyInfo& key : job::key_table()) {
    const std::string flag = mistyped(replace(key.name, '_', '-'));
    // One of a family of names that a framework has (bert-*) is no mistake.
    if (job_keys().kind_of(replace(flag, '-', '_')) != KeyKind::kUnknown) continue;
    EXPECT_THAT(said({"fit", "llama3-8b", "--" + flag, "1"}), HasSubstr("did you mean --"));
  }
}

TEST(Typos, in_values_of_keys_that_are_a_list) {
  int tried = 0;
  for (const job::KeyInfo& key : job::key_table())
    for (const std::string& value : listed_values(key.type)) {
      const std::string flag = "--" + replace(key.name, '_', '-');
      EXPECT_THAT(said({"fit", "llama3-8b", "--gpu", "h100", flag, mistyped(value)}), HasSubstr("did you mean "))
          << flag << ' ' << value;
      ++tried;
    }
  EXPECT_GT(tried, 150);
}

TEST(Typos, in_keys_and_values_of_a_run_of_rl) {
  for (const rl::Key& key : rl::key_table()) {
    const std::string flag = replace(key.name, '_', '-');
    if (job_keys().kind_of(replace(mistyped(flag), '-', '_')) == KeyKind::kUnknown) {
      EXPECT_THAT(said({"rl", kRun, "--" + mistyped(flag), "1"}), HasSubstr("did you mean --"));
    }
    for (const std::string& value : listed_values(rl::type_name(key)))
      EXPECT_THAT(said({"rl", kRun, "--" + flag, mistyped(value)}), HasSubstr("did you mean ")) << flag << ' ' << value;
  }
}

TEST(Typos, in_models_and_gpus_of_the_catalogue) {
  const auto models = answer::find_models("");
  ASSERT_TRUE(models);
  for (const answer::ListedModel& model : *models) {
    EXPECT_THAT(said({"fit", mistyped(model.entry->name)}), HasSubstr("did you mean ")) << model.entry->name;
    EXPECT_THAT(said({"fit", "--model", mistyped(model.entry->name), "--gpu", "h100"}), HasSubstr("did you mean "));
  }
  const auto gpus = answer::find_gpus("");
  ASSERT_TRUE(gpus);
  for (const cluster::Gpu* gpu : *gpus)
    EXPECT_THAT(said({"fit", "llama3-8b", "--gpu", mistyped(gpu->id)}), HasSubstr("did you mean ")) << gpu->id;
}

TEST(Typos, in_frameworks_targets_settings_rules_and_presets) {
  for (const std::string& name : listed_values(job::choices<job::Framework>())) {
    const std::string meant = fmt::format("did you mean {}?", name);
    EXPECT_THAT(said({"fit", "llama3-8b", "--gpu", "h100", "--framework", mistyped(name)}), HasSubstr(meant));
    EXPECT_THAT(said({"keys", "--framework", mistyped(name)}), HasSubstr(meant));
    EXPECT_THAT(said({"plan", "llama3-8b", "--gpu", "h100", "--gpus", "8", "--emit", mistyped(name), "x"}),
                HasSubstr(meant));
  }
  for (const std::string& name : listed_values(rl::choices<rl::Framework>()))
    EXPECT_THAT(said({"rl", kRun, "--framework", mistyped(name)}), HasSubstr(fmt::format("did you mean {}?", name)));
  const auto settings = answer::find_allocator_settings("");
  ASSERT_TRUE(settings);
  for (const allocator::Setting* setting : *settings)
    EXPECT_THAT(said({"fit", "llama3-8b", "--gpu", "h100", "--environment.PYTORCH_CUDA_ALLOC_CONF",
                      mistyped(setting->name) + ":1"}),
                HasSubstr(fmt::format("did you mean {}?", setting->name)));
  EXPECT_THAT(said({"keys", "micro_bach"}), HasSubstr("did you mean micro_batch_size?"));
  EXPECT_THAT(said({"fit", "llama3-8b", "--gpu", "h100", "--recipe", "bf16_with_mxfp8_mixd"}),
              HasSubstr("did you mean "));
}

}  // namespace
}  // namespace plimsoll::cli
