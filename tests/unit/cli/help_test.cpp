// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/table.h"

namespace plimsoll::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Verb sample() {
  return {.name = "weigh",
          .summary = "weigh a thing",
          .operands = "THING",
          .most_operands = 1,
          .details =
              "A first paragraph that is long enough to be broken into several lines on a narrow terminal, "
              "since it goes on.\n\n  laid out   by hand",
          .flags = {{.name = "unit", .argument = "UNIT", .help = "what to weigh in", .repeats = true}},
          .takes_keys = true,
          .examples = {{"plimsoll weigh x", "weighs x"}},
          .run = nullptr};
}

TEST(Help, names_every_flag_of_the_table) {
  const std::string text = help_of_verb(sample(), true, 0);

  for (const Flag& flag : all_flags(sample())) EXPECT_THAT(text, HasSubstr("--" + std::string{flag.name}));
  EXPECT_THAT(text, HasSubstr("--unit UNIT"));
  EXPECT_THAT(text, HasSubstr("(may be repeated)"));
  EXPECT_THAT(text, HasSubstr("usage: plimsoll weigh THING [FLAG...] [--KEY VALUE...]"));
}

TEST(Help, gives_details_and_examples_only_in_the_long_form) {
  EXPECT_THAT(help_of_verb(sample(), true, 0), HasSubstr("plimsoll weigh x"));
  EXPECT_THAT(help_of_verb(sample(), false, 0), Not(HasSubstr("plimsoll weigh x")));
  EXPECT_THAT(help_of_verb(sample(), false, 0), Not(HasSubstr("first paragraph")));
}

TEST(Help, fits_a_narrow_terminal_and_leaves_hand_laid_lines_alone) {
  const std::string text = help_of_verb(sample(), true, 60);

  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 60U) << line;
  EXPECT_THAT(text, HasSubstr("\n  laid out   by hand\n"));
}

TEST(Help, lists_every_verb_with_its_summary) {
  const Verb verb = sample();
  const Verb* const verbs[] = {&verb};

  EXPECT_THAT(help_of_program(verbs, 0), HasSubstr("  weigh  weigh a thing\n"));
}

}  // namespace
}  // namespace plimsoll::cli
