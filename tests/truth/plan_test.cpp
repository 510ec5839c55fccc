// SPDX-License-Identifier: Apache-2.0
// Configurations that NVIDIA tuned and published, against what plan says of the same question: they must be predicted
// to fit, and the plan must be predicted to be at least as fast. A bar is loosened only with the reason in the commit.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "memory/answer.h"
#include "plan/search.h"
#include "timing/step_time.h"
#include "truth/record.h"

namespace plimsoll::truth {
namespace {

struct Recipe {
  std::string id;
  job::Job job;
  bool fits = false;
  std::int64_t device_used = 0;
  double seconds = 0;
};

// The published pre-training runs of Megatron-Bridge that can be compared.
std::vector<Recipe> recipes() {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/throughput-published.json";
  const RecordFile file = read_records(path, read_file(path).value()).value();
  std::vector<Recipe> all;
  for (const Record& record : file.records) {
    if (record.groups.at("framework") != "megatron-bridge" || record.groups.at("task") != "pretrain") continue;
    if (!record.skip.empty()) continue;
    Recipe recipe;
    recipe.id = record.id;
    recipe.job = record.job;
    EXPECT_TRUE(job::complete(recipe.job)) << record.id;
    const auto answer = memory::answer(recipe.job, {});
    EXPECT_TRUE(answer) << record.id;
    recipe.fits = answer && answer->fits;
    recipe.device_used = answer ? answer->ranks[answer->worst].device_used : 0;
    recipe.seconds = timing::predict(recipe.job).value().seconds;
    all.push_back(std::move(recipe));
  }
  return all;
}

// Releases repeat configurations; equal predictions of one model are one question.
using Question = std::tuple<std::string, std::string, std::int64_t, double>;

// Of sequence, batch, GPUs and every knob as published; parallel sizes, micro-batch and recomputation are chosen. The
// switches stay as well: what is found in the smaller space is in the larger one.
double planned_seconds(const job::Job& job) {
  plan::SearchOptions options;
  options.keep = 3;
  const plan::Plan plan = plan::search(job,
                                       plan::make_space(job, {"cp_comm_type", "tp_comm_overlap",
                                                              "optimizer_cpu_offload", "expert_tensor_parallel_size"}),
                                       options);
  return plan.best.empty() ? 0 : plan.best[0].time.seconds;
}

// Planning for every row takes a minute: 146 of 153 plans are as fast. Every third row stands for them unless
// PLIMSOLL_EVERY_ROW is set.
std::size_t step_between_rows() { return std::getenv("PLIMSOLL_EVERY_ROW") != nullptr ? 1 : 3; }

TEST(PlanTruth, published_configurations_fit_and_plans_are_as_fast) {
  const std::vector<Recipe> published = recipes();
  std::map<Question, double> planned;
  std::size_t fit = 0;
  std::size_t as_fast = 0;
  std::size_t both = 0;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < published.size(); ++i) {
    const Recipe& recipe = published[i];
    fit += recipe.fits ? 1 : 0;
    if (!recipe.fits)
      std::printf("does not fit: %s, %.1f of %.1f GiB\n", recipe.id.c_str(),
                  static_cast<double>(recipe.device_used) / (1 << 30),
                  static_cast<double>(recipe.job.cluster.gpu.capacity) / (1 << 30));
    if (i % step_between_rows() != 0) continue;
    ++asked;
    const Question question{recipe.job.model.model_type, recipe.job.cluster.gpu.name, recipe.device_used,
                            recipe.seconds};
    if (!planned.contains(question)) planned[question] = planned_seconds(recipe.job);
    const double best = planned[question];
    const bool is_as_fast = best > 0 && best <= recipe.seconds * (1 + 1e-9);
    as_fast += is_as_fast ? 1 : 0;
    both += is_as_fast && recipe.fits ? 1 : 0;
    if (!is_as_fast) std::printf("slower: %s, %.3f s, planned %.3f s\n", recipe.id.c_str(), recipe.seconds, best);
  }
  std::printf("%zu of %zu fit, plans are as fast for %zu of %zu, both hold for %zu\n", fit, published.size(), as_fast,
              asked, both);
  const auto rows = static_cast<double>(published.size());
  EXPECT_GE(published.size(), 150U);
  EXPECT_GE(static_cast<double>(fit), 0.90 * rows);
  EXPECT_GE(static_cast<double>(as_fast), 0.90 * static_cast<double>(asked));
  EXPECT_GE(static_cast<double>(both), 0.90 * static_cast<double>(asked)) << "it fits, and the plan is as fast";
}

}  // namespace
}  // namespace plimsoll::truth
