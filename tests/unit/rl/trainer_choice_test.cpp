// SPDX-License-Identifier: Apache-2.0
#include "rl/trainer_choice.h"

#include <algorithm>

#include "lever/priced.h"
#include "rl/frameworks/config.h"
#include "rl/knobs.h"
#include "rl/plan.h"
#include "rl/support.h"

namespace plimsoll::rl {
namespace {

// One sample per bin, and every bin full: what the run trains on is what `plan` takes.
Settings full_bins(const Settings& more) {
  const Settings settings = {{"framework", "generic"},
                             {"model", "llama3-8b"},
                             {"gpu", "h100"},
                             {"gpus", "24"},
                             {"inference_num_workers", "8"},
                             {"trainer_framework", "megatron-lm"},
                             {"group_size", "8"},
                             {"prompts_batch_size_for_trainer", "32"},
                             {"prompt_mean", "96"},
                             {"prompt_max", "96"},
                             {"completion_mean", "4000"},
                             {"max_tokens", "4000"},
                             {"seq_len", "4096"}};
  return with(settings, more);
}

std::string shown(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings) text += key + "=" + value + " ";
  return text;
}

plan::Plan plan_of(const Run& run, std::int64_t gpus, const Packed& packed) {
  const auto question = trainer_question(run, gpus, packed);
  EXPECT_TRUE(question.has_value());
  const plan::Beside beside = {
      [&run](const job::Job& job, std::int64_t step) { return least_beside_step(run, job, step); },
      [&run](const job::Job& job, const memory::RankAnswer& worst) { return beside_step(run, job, worst); }};
  plan::SearchOptions options;
  options.beside = &beside;
  return plan::plan_for(*question, options).value();
}

TEST(ThoroughTrainerChoice, is_the_first_row_of_the_plan) {
  for (const Settings& more :
       {Settings{}, Settings{{"gpus", "40"}}, Settings{{"model", "qwen3-14b"}},
        Settings{{"tensor_model_parallel_size", "4"}}, Settings{{"trainer_framework", "fsdp2"}}}) {
    const auto run = run_of(full_bins(more));
    const Packed packed = typical_packing(run, 1, 1);
    plan::Counts counts;
    const auto choice = choose_trainer(run, run.trainer_gpus, packed, {}, Look::kWhole, counts);
    ASSERT_TRUE(choice.has_value()) << shown(more);
    const plan::Plan plan = plan_of(run, run.trainer_gpus, packed);
    ASSERT_FALSE(plan.best.empty());
    EXPECT_NEAR(choice->time.step.seconds / plan.best.front().time.seconds, 1, 0.01) << shown(choice->settings);
    EXPECT_TRUE(std::any_of(plan.best.begin(), plan.best.end(), [&](const plan::Found& row) {
      return row.time.seconds <= plan.best.front().time.seconds * 1.01 &&
             row.job.parallel.tensor == choice->job.parallel.tensor &&
             row.job.parallel.pipeline == choice->job.parallel.pipeline;
    })) << shown(choice->settings);
  }
}

TEST(TrainerChoice, its_settings_make_its_job) {
  const auto run = run_of(full_bins({}));
  const Packed packed = typical_packing(run, 1, 1);
  plan::Counts counts;
  const auto choice = choose_trainer(run, run.trainer_gpus, packed, {}, Look::kWhole, counts);
  ASSERT_TRUE(choice.has_value());
  const auto again = run_of(with(full_bins({}), choice->settings));
  EXPECT_EQ(again.trainer.micro_batches, choice->job.micro_batches);
  EXPECT_NEAR(trainer_time(again, again.trainer, packed)->seconds, choice->time.seconds, 1e-9);
  EXPECT_EQ(trainer_memory(again, again.trainer)->rank.device_used, trainer_memory(run, choice->job)->rank.device_used);
}

TEST(TrainerChoice, a_run_on_measured_links_is_planned_on_them) {
  lever::World slow;
  slow.calibration = timing::built_in();
  slow.calibration.nvlink *= 0.1;
  const auto run = run_of(full_bins({{"tensor_model_parallel_size", "4"}}));
  const Packed packed = typical_packing(run, 1, 1);
  EXPECT_GT(trainer_time(run, run.trainer, packed, slow)->seconds,
            1.05 * trainer_time(run, run.trainer, packed)->seconds);
}

TEST(TrainerChoice, nothing_is_chosen_that_the_framework_cannot_be_told) {
  const auto telescope = run_of(with(telescope_settings(), {{"trainer_framework", "megatron-lm"}}));
  EXPECT_TRUE(can_be_told(telescope, {{"tensor_model_parallel_size", "2"}}));
  EXPECT_TRUE(can_be_told(telescope, {{"recompute_granularity", "none"}}));
  EXPECT_FALSE(can_be_told(telescope, {{"recompute_granularity", "selective"}, {"recompute_modules", "mlp"}}));
  EXPECT_FALSE(can_be_told(telescope, {{"virtual_pipeline_model_parallel_size", "2"}}));
  EXPECT_FALSE(can_be_told(telescope, {{"cuda_graph_impl", "local"}}));
  EXPECT_TRUE(can_be_told(telescope, {{"environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}));
}

TEST(TrainerChoice, knobs_of_the_trainer_have_the_price_of_their_levers) {
  for (const Settings& more : {Settings{{"tensor_model_parallel_size", "2"}}, Settings{{"trainer_framework", "fsdp2"}},
                               Settings{{"tensor_model_parallel_size", "4"}, {"pipeline_model_parallel_size", "2"}}}) {
    const Settings settings = full_bins(more);
    const auto run = run_of(settings);
    const auto draft = read_draft({}, settings).value();
    const auto request =
        trainer_request(run)->with("gradient_accumulation_steps", std::to_string(*run.trainer.batch.accumulation));
    const auto before = lever::price(run.trainer, {});
    const std::vector<lever::Change> changes = trainer_changes(run);
    ASSERT_FALSE(changes.empty());
    EvaluationOptions options;
    options.simulates = false;
    const auto base = evaluate(run, options).value();
    std::vector<Knob> knobs;
    for (const lever::Change& change : changes) knobs.push_back({"trainer memory", change.settings, change.label});
    const auto knobs_priced = price_knobs(draft, run, base, knobs, options);
    const auto levers_priced =
        lever::price_changes(request, run.trainer, *before, {}, lever::changes_of(run.trainer, {true, true, true}));
    std::size_t compared = 0;
    for (std::size_t i = 0; i < changes.size(); ++i)
      for (const lever::PricedChange& lever : levers_priced)
        if (lever.change.label == changes[i].label && knobs_priced[i].refused.empty()) {
          EXPECT_EQ(knobs_priced[i].step_bytes, lever.difference) << changes[i].label;
          ++compared;
        }
    EXPECT_GE(compared, 3U);
  }
}

TEST(ThoroughTrainerChoice, deepseek_v3_on_512_gpus_is_planned) {
  const Settings settings = {{"framework", "telescope"},
                             {"model", "deepseek-v3"},
                             {"gpu", "h200"},
                             {"gpus", "512"},
                             {"trainer_framework", "megatron-lm"},
                             {"prompts_batch_size_for_trainer", "256"},
                             {"prompt_mean", "500"},
                             {"prompt_max", "1000"},
                             {"completion_mean", "3000"},
                             {"max_tokens", "8000"},
                             {"max_model_len", "9000"},
                             {"seq_len", "16384"}};
  const auto answer = plan(read_draft({}, settings).value(), {});
  ASSERT_TRUE(answer.has_value()) << to_string(answer.error());
  ASSERT_FALSE(answer->best.empty());
  EXPECT_TRUE(answer->best.front().evaluation.fits());
  // 1.25 TiB of weights are gathered on no GPU.
  EXPECT_TRUE(answer->best.front().run.sync.cpu_staging);
}

TEST(TrainerChoice, fp8_is_refused_where_the_trainer_cannot) {
  const Settings megatron = {{"trainer_framework", "megatron-lm"}, {"megatron_fp8", "true"}};
  const auto error = [](const Settings& more) {
    const auto run = read_run({}, with(telescope_settings(), more));
    return run ? std::string{} : to_string(run.error());
  };
  EXPECT_NE(error(with(megatron, {{"gpu", "a100"}, {"megatron_use_transformer_engine", "true"}})).find("R212"),
            std::string::npos);
  EXPECT_NE(error(megatron), "");  // the modules of Transformer Engine are off
  EXPECT_NE(error({{"megatron_fp8", "true"}}).find("fp8"), std::string::npos);  // FSDP
  EXPECT_EQ(error(with(megatron, {{"megatron_use_transformer_engine", "true"}})), "");
}

}  // namespace
}  // namespace plimsoll::rl
