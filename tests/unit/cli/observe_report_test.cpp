// SPDX-License-Identifier: Apache-2.0
#include "cli/rl_observe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "document/node.h"

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

rl::Observation trainer_bound() {
  return rl::observe({{"m.jsonl", R"({"trainer/idle_ratio": 0.01, "rollouter/idle_ratio": 0.4})"}});
}

TEST(ObserveReport, text_names_bottleneck_line_and_first_knob) {
  const std::string text = observation_text(trainer_bound(), Console{});
  EXPECT_THAT(text, HasSubstr("trainer-bound (verl)\n  m.jsonl:1: generation stands still for 40 % of the time"));
  EXPECT_THAT(text, HasSubstr("\n  1. trainer.nnodes, trainer.n_gpus_per_node: raise; "));
  EXPECT_THAT(text, HasSubstr("\n  note: raising async_training.staleness_threshold smooths jitter"));
}

TEST(ObserveReport, text_fits_the_width) {
  Console console;
  console.width = 70;
  const std::string text = observation_text(trainer_bound(), console);
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    EXPECT_LE(end - start, 70U) << text.substr(start, end - start);
    start = end + 1;
  }
}

TEST(ObserveReport, json_parses_and_holds_value_and_threshold) {
  const auto json = document::parse_json(answer::to_json(trainer_bound()));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("verdict")->text, "bottleneck");
  EXPECT_EQ(json->find("framework")->text, "verl");
  const document::Node& finding = json->find("findings")->items.at(0);
  EXPECT_EQ(finding.find("bottleneck")->text, "trainer");
  const document::Node& evidence = finding.find("evidence")->items.at(0);
  EXPECT_EQ(evidence.find("line")->integer, 1);
  EXPECT_EQ(evidence.find("value")->as_real(), 0.4);
  EXPECT_EQ(evidence.find("threshold")->as_real(), 0.1);
}

TEST(ObserveReport, nothing_known_says_so) {
  const rl::Observation nothing = rl::observe({{"a.log", "hello\n"}});
  EXPECT_EQ(nothing.verdict, rl::Verdict::kUnknown);
  EXPECT_EQ(trainer_bound().verdict, rl::Verdict::kBottleneck);
  const std::string text = observation_text(nothing, Console{});
  EXPECT_THAT(text, HasSubstr("unknown: these files do not show"));
  EXPECT_THAT(text, HasSubstr("not in these files"));
  EXPECT_THAT(text, Not(HasSubstr("bound\n")));
}

}  // namespace
}  // namespace plimsoll::cli
