// SPDX-License-Identifier: Apache-2.0
#include "plan/search.h"

#include <atomic>

#include <gtest/gtest.h>

#include "plan/support.h"
#include "rules/rules.h"

namespace plimsoll::plan {
namespace {

using test::job_of;
using test::llama_70b;
using test::llama_8b;
using test::plan_of;
using test::plan_of_70b;
using test::setting;

std::vector<job::Job> questions() {
  return {llama_70b(), llama_8b(), job_of("qwen3-30b-a3b", 8, {{"seq_length", "4096"}, {"global_batch_size", "64"}}),
          job_of("llama3-8b", 8, {{"seq_length", "4096"}, {"global_batch_size", "32"}}, "h100-sxm-80gb",
                 job::Framework::kMegatronLm)};
}

TEST(ThoroughSearch, proposes_only_what_fits_by_the_walk_and_no_rule_forbids) {
  for (const job::Job& job : questions()) {
    const Plan plan = plan_of(job, {}, 10);
    ASSERT_FALSE(plan.best.empty());
    for (const Found& found : plan.best) {
      const auto answer = memory::answer(found.job, {});
      ASSERT_TRUE(answer);
      EXPECT_TRUE(answer->fits);
      EXPECT_EQ(answer->ranks[answer->worst].device_used, found.worst.device_used);
      EXPECT_GE(found.worst.headroom, 0);
      for (const rules::Violation& violation : rules::check(found.job))
        EXPECT_EQ(violation.rule->severity, rules::Severity::kWarning) << violation.rule->id << ": " << violation.wrong;
    }
  }
}

TEST(Search, ranks_by_the_simulated_step) {
  const Plan& plan = plan_of_70b();
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    EXPECT_EQ(plan.best[i].time.seconds, timing::predict(plan.best[i].job)->seconds);
    if (i > 0) {
      EXPECT_LE(plan.best[i - 1].time.seconds, plan.best[i].time.seconds);
    }
  }
}

TEST(Search, never_changes_what_it_does_not_choose) {
  const job::Job job = llama_70b();
  for (const Found& found : plan_of_70b().best) {
    EXPECT_EQ(found.job.batch.seq_length, job.batch.seq_length);
    EXPECT_EQ(found.job.batch.global_batch, job.batch.global_batch);
    EXPECT_EQ(found.job.cluster.gpus, job.cluster.gpus);
    EXPECT_EQ(found.job.precision.fp8, job.precision.fp8);
    EXPECT_EQ(found.job.precision.params, job.precision.params);
    EXPECT_EQ(found.job.optimizer.kind, job.optimizer.kind);
    EXPECT_EQ(found.job.adapter.kind, job.adapter.kind);
  }
}

TEST(ThoroughSearch, keeps_every_pinned_size) {
  struct Pin {
    const char* key;
    const char* value;
    std::int64_t (*read)(const job::Job&);
  };
  const Pin pins[] = {
      {"tensor_model_parallel_size", "4", [](const job::Job& j) { return j.parallel.tensor; }},
      {"pipeline_model_parallel_size", "8", [](const job::Job& j) { return j.parallel.pipeline; }},
      {"context_parallel_size", "2", [](const job::Job& j) { return j.parallel.context; }},
      {"micro_batch_size", "2", [](const job::Job& j) { return j.batch.micro_batch; }},
      {"tp_comm_overlap", "false", [](const job::Job& j) { return std::int64_t{j.parallel.tp_comm_overlap}; }},
      {"optimizer_cpu_offload", "false", [](const job::Job& j) { return std::int64_t{j.asked.optimizer_cpu_offload}; }},
  };
  for (const Pin& pin : pins) {
    const job::Job job = llama_70b({{"tensor_model_parallel_size", "4"}, {pin.key, pin.value}});
    const Plan plan = plan_of(job, {pin.key}, 10);
    ASSERT_FALSE(plan.best.empty()) << pin.key;
    for (const Found& found : plan.best) EXPECT_EQ(pin.read(found.job), pin.read(job)) << pin.key;
  }
}

TEST(Search, keeps_pinned_recomputation_and_layout) {
  const job::Job job = llama_70b({{"pipeline_model_parallel_size", "4"},
                                  {"tensor_model_parallel_size", "4"},
                                  {"num_layers_in_first_pipeline_stage", "18"},
                                  {"num_layers_in_last_pipeline_stage", "18"},
                                  {"recompute_granularity", "full"},
                                  {"recompute_method", "uniform"},
                                  {"recompute_num_layers", "1"}});
  const Plan plan = plan_of(job,
                            {"pipeline_model_parallel_size", "num_layers_in_first_pipeline_stage",
                             "num_layers_in_last_pipeline_stage", "recompute_granularity"},
                            10);
  ASSERT_FALSE(plan.best.empty());
  for (const Found& found : plan.best) {
    EXPECT_EQ(found.job.parallel.layers_in_first_stage, 18);
    EXPECT_EQ(found.job.recompute.granularity, job::RecomputeGranularity::kFull);
  }
}

TEST(Search, answers_the_same_with_any_number_of_threads) {
  const job::Job job = llama_8b();
  const Space space = make_space(job, {});
  SearchOptions options;
  options.threads = 1;
  const Plan one = search(job, space, options);
  options.threads = 2;
  const Plan two = search(job, space, options);
  EXPECT_EQ(one.counts.considered, two.counts.considered);
  EXPECT_EQ(one.counts.fits, two.counts.fits);
  EXPECT_EQ(one.counts.slower, two.counts.slower);
  ASSERT_EQ(one.refusals.size(), two.refusals.size());
  for (std::size_t i = 0; i < one.refusals.size(); ++i) {
    EXPECT_EQ(one.refusals[i].reason, two.refusals[i].reason);
    EXPECT_EQ(one.refusals[i].count, two.refusals[i].count);
  }
  ASSERT_EQ(one.best.size(), two.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].settings, two.best[i].settings);
    EXPECT_EQ(one.best[i].time.seconds, two.best[i].time.seconds);
  }
  ASSERT_EQ(one.pareto.size(), two.pareto.size());
  for (std::size_t i = 0; i < one.pareto.size(); ++i) EXPECT_EQ(one.pareto[i].peak, two.pareto[i].peak);
}

TEST(Search, accounts_for_every_point) {
  const Counts counts = plan_of_70b().counts;
  EXPECT_EQ(counts.considered,
            counts.refused + counts.does_not_fit + counts.skipped + counts.slower + counts.no_host + counts.fits);
}

TEST(Search, stops_when_told_and_returns_what_it_has) {
  const job::Job job = job_of("deepseek-v3", 1024, {{"seq_length", "4096"}, {"global_batch_size", "8192"}});
  std::atomic<bool> stop{false};
  SearchOptions options;
  options.stop = &stop;
  options.threads = 1;
  options.keep = 1;
  options.progress = [&stop](const Counts& counts) { stop = counts.fits > 0; };
  const Plan plan = search(job, make_space(job, {}), options);
  EXPECT_TRUE(plan.interrupted);
  EXPECT_GT(plan.counts.considered, 0U);
  EXPECT_FALSE(plan.pareto.empty()) << "what fitted before is kept";
  EXPECT_EQ(plan.best.size(), 1U);
}

TEST(Search, told_to_stop_before_it_starts_has_nothing) {
  const std::atomic<bool> stop{true};
  SearchOptions options;
  options.stop = &stop;
  const job::Job job = llama_8b();
  const Plan plan = search(job, make_space(job, {}), options);
  EXPECT_TRUE(plan.interrupted);
  EXPECT_TRUE(plan.best.empty());
}

TEST(Search, names_the_nearest_miss_when_nothing_fits) {
  const Plan plan = plan_of(job_of("llama3-70b", 1, {{"seq_length", "4096"}, {"global_batch_size", "32"}}));
  EXPECT_TRUE(plan.best.empty());
  EXPECT_TRUE(plan.pareto.empty());
  EXPECT_GT(plan.least_peak, plan_of(llama_8b()).best[0].worst.capacity);
  EXPECT_EQ(plan.nearest.tensor, 1);
  EXPECT_EQ(plan.nearest.micro_batch, 1);
}

TEST(ThoroughSearch, puts_most_headroom_first_where_that_is_asked) {
  const job::Job job = llama_70b();
  SearchOptions options;
  options.objective = Objective::kHeadroom;
  const Plan roomy = search(job, make_space(job, {}), options);
  const Plan& fast = plan_of_70b();
  ASSERT_FALSE(roomy.best.empty());
  EXPECT_GT(roomy.best[0].worst.headroom, fast.best[0].worst.headroom);
  EXPECT_GE(roomy.best[0].time.seconds, fast.best[0].time.seconds);
}

TEST(Search, front_falls_in_memory_and_rises_in_time) {
  const Plan& plan = plan_of_70b();
  ASSERT_GT(plan.pareto.size(), 3U);
  for (std::size_t i = 1; i < plan.pareto.size(); ++i) {
    EXPECT_LT(plan.pareto[i].peak, plan.pareto[i - 1].peak);
    EXPECT_GT(plan.pareto[i].seconds, plan.pareto[i - 1].seconds);
  }
}

TEST(Search, says_how_often_each_reason_refused) {
  const Plan& plan = plan_of_70b();
  std::size_t sum = 0;
  for (std::size_t i = 0; i < plan.refusals.size(); ++i) {
    sum += plan.refusals[i].count;
    if (i > 0) {
      EXPECT_LE(plan.refusals[i].count, plan.refusals[i - 1].count);
    }
  }
  EXPECT_EQ(sum, plan.counts.refused);
}

TEST(Search, settings_make_the_job_that_was_priced) {
  for (const Found& found : plan_of_70b().best) {
    test::Keys keys = {{"seq_length", "4096"}, {"global_batch_size", "32"}};
    keys.insert(keys.end(), found.settings.begin(), found.settings.end());
    const job::Job again = job_of("llama3-70b", 32, keys);
    EXPECT_EQ(timing::predict(again)->seconds, found.time.seconds);
    const auto answer = memory::answer(again, {});
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->ranks[answer->worst].device_used, found.worst.device_used);
  }
}

}  // namespace
}  // namespace plimsoll::plan
