// SPDX-License-Identifier: Apache-2.0
#include "rl/plan.h"

#include <fmt/format.h>

#include "rl/keys.h"
#include "rl/knobs.h"
#include "rl/support.h"

namespace plimsoll::rl {
namespace {

Run draft_of(const Settings& settings) {
  auto draft = read_draft({}, settings);
  if (!draft) ADD_FAILURE() << to_string(draft.error());
  return *draft;
}

Settings open_split(const Settings& more) {
  Settings settings = with(telescope_settings(), more);
  std::erase_if(settings, [](const auto& one) { return one.first == "trainer_num_workers"; });
  return settings;
}

// The best proposal with one server more or less, everything else as proposed.
double moved(const Settings& settings, const Proposal& best, std::int64_t by, const PlanOptions& options) {
  Settings other = with(settings, best.settings);
  const std::int64_t serving = best.run.inference_gpus + by * best.run.gpus_per_server();
  const std::int64_t training = best.run.cluster.gpus - serving;
  if (serving < 1 || training < 1) return 0;
  other = with(other,
               {{"inference_num_workers", std::to_string(serving)}, {"trainer_num_workers", std::to_string(training)}});
  const auto run = read_run({}, other);
  if (!run) return 0;
  EvaluationOptions how;
  how.simulation = options.simulation;
  const auto answer = evaluate(*run, how);
  return answer && answer->fits() ? answer->tokens_per_second() : 0;
}

TEST(ThoroughRlPlan, moving_one_server_from_the_best_split_is_no_faster) {
  const std::vector<Settings> cases = {
      open_split({}),
      open_split({{"gpus", "16"}, {"completion_mean", "2500"}, {"seq_len", "8192"}}),
      open_split({{"gpus", "32"}, {"prompts_batch_size_for_trainer", "128"}, {"completion_cv", "0"}}),
      open_split({{"framework", "generic"}, {"gpus", "24"}, {"group_size", "8"}, {"max_tokens", "3700"}}),
      open_split({{"framework", "prime-rl"},
                  {"gpus", "8"},
                  {"group_size", "8"},
                  {"max_tokens", "3700"},
                  {"inference_tensor_parallel_size", "1"}}),
  };
  for (const Settings& settings : cases) {
    const PlanOptions options;
    const auto answer = plan(draft_of(settings), options);
    ASSERT_TRUE(answer.has_value()) << to_string(answer.error());
    ASSERT_FALSE(answer->best.empty());
    const Proposal& best = answer->best.front();
    const double now = best.evaluation.tokens_per_second();
    EXPECT_LE(moved(settings, best, 1, options), now * (1 + 1e-9)) << best.run.inference_gpus;
    EXPECT_LE(moved(settings, best, -1, options), now * (1 + 1e-9)) << best.run.inference_gpus;
  }
}

TEST(RlPlan, the_settings_of_a_proposal_give_its_run) {
  const Settings settings = open_split({});
  const PlanOptions options;
  const auto answer = plan(draft_of(settings), options);
  ASSERT_TRUE(answer.has_value());
  for (const Proposal& proposal : answer->best) {
    const auto run = run_of(with(settings, proposal.settings));
    EvaluationOptions how;
    how.simulation = options.simulation;
    const auto again = evaluate(run, how);
    ASSERT_TRUE(again.has_value());
    EXPECT_NEAR(again->tokens_per_second() / proposal.evaluation.tokens_per_second(), 1, 1e-9);
  }
}

TEST(RlPlan, what_is_given_stays) {
  const auto answer = plan(draft_of(open_split({{"inference_tensor_parallel_size", "2"},
                                                {"max_async_rollout", "3"},
                                                {"max_concurrent_prompts_per_server", "8"},
                                                {"seq_len", "8192"}})),
                           {});
  ASSERT_TRUE(answer.has_value());
  for (const Proposal& proposal : answer->best) {
    EXPECT_EQ(proposal.run.server.tensor, 2);
    EXPECT_EQ(proposal.run.staleness.limit, 3);
    EXPECT_EQ(proposal.run.lanes.prompts_per_server, 8);
    EXPECT_EQ(proposal.run.packing.seq_len, 8192);
  }
}

TEST(RlPlan, proposals_are_ranked_and_run) {
  const auto answer = plan(draft_of(open_split({{"gpus", "16"}})), {});
  ASSERT_TRUE(answer.has_value());
  ASSERT_GE(answer->best.size(), 3U);
  for (std::size_t i = 0; i < answer->best.size(); ++i) {
    EXPECT_TRUE(answer->best[i].evaluation.fits());
    if (i > 0) {
      EXPECT_LE(answer->best[i].evaluation.tokens_per_second(), answer->best[i - 1].evaluation.tokens_per_second());
    }
  }
}

TEST(RlPlan, a_model_that_is_too_large_has_no_plan) {
  const auto answer = plan(draft_of(open_split({{"model", "llama3.1-405b"}})), {});
  ASSERT_TRUE(answer.has_value()) << to_string(answer.error());
  EXPECT_TRUE(answer->best.empty());
  EXPECT_GT(answer->counts.trainer_too_large + answer->counts.server_too_large, 0U);
}

TEST(RlPlan, a_colocated_run_has_nothing_to_split) {
  const Settings settings = {{"framework", "verl"},  {"model", "qwen2.5-7b"},     {"gpu", "h100"},
                             {"gpus", "8"},          {"group_size", "8"},         {"prompts_per_step", "64"},
                             {"prompt_mean", "300"}, {"completion_mean", "1100"}, {"max_tokens", "4000"}};
  const auto answer = plan(draft_of(settings), {});
  ASSERT_TRUE(answer.has_value()) << to_string(answer.error());
  ASSERT_FALSE(answer->best.empty());
  EXPECT_EQ(answer->best.front().run.inference_gpus, 8);
}

TEST(Knobs, every_knob_of_a_run_can_be_turned) {
  for (const Settings& settings :
       {telescope_settings(), with(telescope_settings(), {{"trainer_framework", "megatron-lm"},
                                                          {"megatron_use_transformer_engine", "true"}})}) {
    const auto draft = draft_of(settings);
    const auto run = run_of(settings);
    EvaluationOptions options;
    options.simulation = {.steps = 4, .warm_up = 2};
    const auto base = evaluate(run, options);
    ASSERT_TRUE(base.has_value());
    const std::vector<Knob> knobs = knobs_of(run, *base);
    const std::vector<Priced> priced = price_knobs(draft, run, *base, knobs, options);
    ASSERT_EQ(priced.size(), knobs.size());
    for (const Priced& one : priced) {
      EXPECT_TRUE(one.refused.empty() || one.knob.settings.front().first.find("parallel") != std::string::npos)
          << one.knob.settings.front().first << ": " << one.refused;
      for (const auto& [key, value] : one.knob.settings) EXPECT_FALSE(value_text(run, key).empty()) << key;
    }
  }
}

TEST(Knobs, without_a_simulation_knobs_are_compared_in_closed_form) {
  EvaluationOptions options;
  options.simulates = false;
  const Settings settings = telescope_settings();
  const auto run = run_of(settings);
  const auto base = evaluate(run, options);
  ASSERT_TRUE(base.has_value());
  const Knob fewer{"rollout", {{"max_concurrent_prompts_per_server", "1"}}, "fewer lanes"};
  const std::vector<Priced> priced = price_knobs(draft_of(settings), run, *base, {fewer}, options);
  ASSERT_EQ(priced.size(), 1U);
  EXPECT_TRUE(priced.front().refused.empty()) << priced.front().refused;
  EXPECT_LT(priced.front().tokens_per_second, 0);
  EXPECT_GT(priced.front().period, 0);
}

}  // namespace
}  // namespace plimsoll::rl
