// SPDX-License-Identifier: Apache-2.0
// The best of a plan is the best: no lever of fit, pulled alone on it, makes it faster by more than a prediction can
// tell and still surely fits; and fit with the plan's settings gives the plan's own bytes and seconds.
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "ask.h"
#include "random_job.h"

namespace plimsoll {
namespace {

using document::Node;
using testing::add_flags;
using testing::ask;
using testing::chance;
using testing::command;
using testing::one_of;
using testing::rate_of;
using testing::Words;
using testing::worst_of;

constexpr double kSameTime = 0.005;

Words random_question(std::mt19937_64& random) {
  return {"--model",
          one_of<const char*>(random, {"llama3-8b", "qwen3-0.6b", "mixtral-8x7b", "llama3.2-1b", "qwen3-30b-a3b"}),
          "--framework",
          one_of<const char*>(random, {"megatron-lm", "megatron-bridge", "fsdp2", "deepspeed", "torchtitan"}),
          "--gpu",
          one_of<const char*>(random, {"h100-sxm-80gb", "h200", "a100-sxm-80gb", "b200"}),
          "--gpus",
          one_of<const char*>(random, {"8", "16", "32"}),
          "--seq-length",
          one_of<const char*>(random, {"2048", "8192", "32768"}),
          "--global-batch-size",
          one_of<const char*>(random, {"32", "128"})};
}

bool surely_fits(const Node& fit) {
  const Node& worst = worst_of(fit);
  return fit.find("fits")->boolean &&
         worst.find("interval")->find("high_bytes")->integer <= worst.find("capacity_bytes")->integer;
}

TEST(PlanLevers, none_makes_the_best_faster_and_surely_fits) {
  std::mt19937_64 random(13);
  int planned = 0;
  std::set<Words> asked;
  for (int i = 0; i < testing::questions(24, 2000); ++i) {
    Words question = random_question(random);
    if (!asked.insert(question).second) continue;  // the same answer again
    Words plan_words = question;
    plan_words.insert(plan_words.begin(), "plan");
    plan_words.insert(plan_words.end(), {"--top", "1"});
    const auto plan = ask(plan_words);
    if (!plan || plan->json.find("plans")->items.empty()) continue;
    const Node& best = plan->json.find("plans")->items.front();
    Words words = question;
    words.insert(words.begin(), "fit");
    if (const Node* assumed = plan->json.find("assumed"); assumed != nullptr) add_flags(*assumed, words);
    add_flags(*best.find("settings"), words);
    SCOPED_TRACE(command(words));
    const auto fit = ask(words);
    ASSERT_TRUE(fit) << command(plan_words);
    EXPECT_EQ(worst_of(fit->json).find("device_used_bytes")->integer, best.find("device_used")->integer)
        << command(plan_words);
    EXPECT_NEAR(fit->json.find("time")->find("step_seconds")->as_real(), best.find("step_seconds")->as_real(),
                1e-9 * best.find("step_seconds")->as_real());
    ++planned;
    if (!best.find("surely_fits")->boolean) continue;
    for (const Node& row : fit->json.find("changes")->items) {
      const Node* share = row.find("time_share");
      if (!row.find("lossless")->boolean || share == nullptr || !share->is_number()) continue;
      if (row.find("settings")->find("sharding") != nullptr) continue;  // another framework's launch
      if (share->as_real() > -kSameTime / (1 + kSameTime) - 1e-9) continue;
      Words with = words;
      add_flags(*row.find("settings"), with);
      const auto pulled = ask(with);
      EXPECT_FALSE(pulled && surely_fits(pulled->json))
          << row.find("label")->text << " is faster by " << -100 * share->as_real() << " %: " << command(plan_words);
    }
  }
  EXPECT_GT(planned, static_cast<int>(asked.size()) / 2);
}

}  // namespace
}  // namespace plimsoll
