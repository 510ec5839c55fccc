// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Flag> kFlags = {
    {.name = "json", .argument = "", .help = ""},
    {.name = "gpu", .argument = "NAME", .help = ""},
    {.name = "sweep", .argument = "KEY=A,B", .help = "", .repeats = true},
    {.name = "quiet", .argument = "", .help = "", .letter = 'q'},
};

const KeySet kKeys = {[](std::string_view key) {
                        if (key == "sequence_parallel" || key == "no_rope_fusion") return KeyKind::kSwitch;
                        if (key == "micro_batch_size" || key == "per_device_train_batch_size") return KeyKind::kValue;
                        return KeyKind::kUnknown;
                      },
                      [](std::string_view key) { return std::string{key == "mbs" ? "micro_batch_size" : key}; },
                      {"micro_batch_size", "sequence_parallel"}};

Result<Arguments> parse(const std::vector<std::string>& words, const KeySet* keys = &kKeys) {
  return parse_arguments("fit", words, kFlags, keys);
}

Error error_of(const std::vector<std::string>& words, const KeySet* keys = &kKeys) {
  const Result<Arguments> result = parse(words, keys);
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

TEST(Arguments, separates_operands_flags_and_keys) {
  const Result<Arguments> result = parse({"a.toml", "--json", "--gpu", "h100", "--micro-batch-size", "2", "b.json"});

  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(result->operands, ElementsAre("a.toml", "b.json"));
  EXPECT_TRUE(result->has("json"));
  EXPECT_EQ(result->value("gpu"), "h100");
  EXPECT_EQ(result->keys, (Pairs{{"micro_batch_size", "2"}}));
}

TEST(Arguments, takes_a_value_after_an_equals_sign) {
  const Result<Arguments> result = parse({"--gpu=h100", "--micro_batch_size=4", "--sweep=a=1,2"});

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->value("gpu"), "h100");
  EXPECT_EQ(result->keys, (Pairs{{"micro_batch_size", "4"}}));
  EXPECT_THAT(result->values("sweep"), ElementsAre("a=1,2"));
}

TEST(Arguments, keeps_every_value_of_a_flag_that_repeats) {
  const Result<Arguments> result = parse({"--sweep", "a=1", "--sweep", "b=2"});

  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(result->values("sweep"), ElementsAre("a=1", "b=2"));
}

TEST(Arguments, a_switch_among_the_keys_does_not_swallow_a_file) {
  const Result<Arguments> result = parse({"--sequence-parallel", "job.toml"});

  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(result->operands, ElementsAre("job.toml"));
  EXPECT_EQ(result->keys, (Pairs{{"sequence_parallel", "true"}}));
}

TEST(Arguments, a_switch_among_the_keys_takes_a_truth) {
  const Result<Arguments> result = parse({"--sequence-parallel", "false", "job.toml"});

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->keys, (Pairs{{"sequence_parallel", "false"}}));
}

TEST(Arguments, no_turns_a_switch_off_unless_it_is_a_key_itself) {
  const Result<Arguments> result = parse({"--no-sequence-parallel", "--no-rope-fusion"});

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->keys, (Pairs{{"sequence_parallel", "false"}, {"no_rope_fusion", "true"}}));
}

TEST(Arguments, a_short_name_is_its_key) {
  const Result<Arguments> result = parse({"--mbs", "2"});

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->keys, (Pairs{{"micro_batch_size", "2"}}));
  EXPECT_EQ(error_of({"--mbs", "2", "--micro-batch-size", "2"}).message, "--micro-batch-size was given twice");
}

TEST(Arguments, takes_a_negative_number_as_a_value) {
  const Result<Arguments> result = parse({"--micro-batch-size", "-1"});

  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->keys, (Pairs{{"micro_batch_size", "-1"}}));
}

TEST(Arguments, understands_dash_as_standard_input_and_two_dashes_as_the_end_of_flags) {
  const Result<Arguments> result = parse({"-", "--", "--json"});

  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(result->operands, ElementsAre("-", "--json"));
  EXPECT_FALSE(result->has("json"));
}

TEST(Arguments, suggests_the_flag_that_was_meant) {
  const Error error = error_of({"--jsno"});

  EXPECT_EQ(error.code, Code::kUsage);
  EXPECT_EQ(error.message, "fit has no flag --jsno");
  EXPECT_EQ(error.hint, "did you mean --json?");
}

TEST(Arguments, suggests_the_key_that_was_meant) {
  EXPECT_EQ(error_of({"--micro-batch-sise", "2"}).hint, "did you mean --micro-batch-size?");
}

TEST(Arguments, refuses_keys_where_the_verb_takes_none) {
  EXPECT_EQ(error_of({"--micro-batch-size", "2"}, nullptr).message, "fit has no flag --micro-batch-size");
}

TEST(Arguments, refuses_an_unknown_letter) { EXPECT_EQ(error_of({"-x"}).message, "fit has no flag -x"); }

TEST(Arguments, says_what_a_flag_without_its_value_wants) {
  EXPECT_EQ(error_of({"--gpu"}).message, "--gpu wants NAME");
  EXPECT_EQ(error_of({"--gpu", "--json"}).message, "--gpu wants NAME");
  EXPECT_EQ(error_of({"--gpu="}).message, "--gpu wants NAME");
  EXPECT_EQ(error_of({"--micro-batch-size"}).message, "--micro-batch-size wants a value");
}

TEST(Arguments, refuses_a_value_for_a_switch) {
  EXPECT_THAT(error_of({"--json=1"}).message, HasSubstr("takes no value"));
}

TEST(Arguments, refuses_what_is_given_twice) {
  EXPECT_EQ(error_of({"--json", "--json"}).message, "--json was given twice");
  EXPECT_EQ(error_of({"--micro-batch-size", "1", "--micro_batch_size", "2"}).message,
            "--micro_batch_size was given twice");
}

}  // namespace
}  // namespace plimsoll::cli
