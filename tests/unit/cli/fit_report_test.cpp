// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answer/fit.h"
#include "answer/words.h"
#include "base/bytes.h"
#include "document/node.h"

namespace plimsoll::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

step::Moment backward_of_layer_17() { return {step::Phase::kBackward, step::Operation::kFc2Linear, 2, 17, 3}; }

// A rank of an 80 GiB device that uses 60 GiB, or `used`.
memory::RankAnswer rank_using(std::int64_t used) {
  memory::RankAnswer rank;
  rank.capacity = 80 * kGiB;
  rank.device_used = used;
  rank.headroom = rank.capacity - used;
  rank.fits = rank.headroom >= 0;
  rank.low = used - kGiB;
  rank.high = used + kGiB;
  rank.peak_allocated = rank.peak_reserved = used;
  rank.table = {{"parameters", used - kGiB, false},
                {"gradients", 0, false},
                {"NCCL", kGiB, true},
                {"free", rank.headroom, false}};
  rank.peak.allocated = used;
  rank.peak.moment = backward_of_layer_17();
  rank.alive = {{step::Name::kWeight, 3, used}};
  return rank;
}

answer::Fit answer_using(std::int64_t used) {
  answer::Fit fit;
  fit.job.model.name = "llama3-8b";
  fit.job.cluster.gpu.id = "h100-sxm-80gb";
  fit.memory.ranks = {rank_using(used)};
  fit.memory.peak_by_stage = {used};
  fit.memory.fits = fit.memory.ranks[0].fits;
  return fit;
}

TEST(FitReport, opens_with_the_verdict_and_the_headroom) {
  EXPECT_THAT(fit_report(answer_using(60 * kGiB), {}),
              HasSubstr("fits: 20.00 GiB (25.0 %) of 80.00 GiB are free on the worst rank, pp=0\n"));
  EXPECT_THAT(fit_report(answer_using(84 * kGiB), {}),
              HasSubstr("does not fit: 4.00 GiB (5.0 %) more than 80.00 GiB are needed on the worst rank, pp=0\n"));
}

TEST(FitReport, blames_gaps_where_the_bytes_alone_would_fit) {
  answer::Fit fit = answer_using(79 * kGiB);
  fit.memory.ranks[0].fits = false;

  EXPECT_THAT(fit_report(fit, {}), HasSubstr("although 79.00 GiB would be enough without its gaps"));
}

TEST(FitReport, says_when_the_interval_contradicts_the_verdict) {
  EXPECT_THAT(fit_report(answer_using(80 * kGiB), {}), HasSubstr("its upper end does not fit"));
  EXPECT_THAT(fit_report(answer_using(80 * kGiB + kMiB), {}), HasSubstr("its lower end fits"));
  EXPECT_THAT(fit_report(answer_using(60 * kGiB), {}), Not(HasSubstr("end")));
}

TEST(FitReport, says_when_the_node_is_too_small) {
  answer::Fit fit = answer_using(60 * kGiB);
  fit.memory.host.bytes_per_node = 3 * 1024 * kGiB;
  fit.memory.host.capacity = 2 * 1024 * kGiB;
  fit.memory.host.fits = false;

  const std::string text = fit_report(fit, {});

  EXPECT_THAT(text,
              StartsWith("does not fit: 3072.00 GiB of host memory per node are needed, 2048.00 GiB are there\n"));
}

TEST(FitReport, marks_estimates_and_leaves_out_empty_rows) {
  const std::string text = fit_report(answer_using(60 * kGiB), {});

  EXPECT_THAT(text, HasSubstr("NCCL (estimate)"));
  EXPECT_THAT(text, HasSubstr("parameters"));
  EXPECT_THAT(text, Not(HasSubstr("gradients")));
  EXPECT_THAT(text, HasSubstr("85,899,345,920"));
}

TEST(FitReport, says_what_removing_the_peak_would_save) {
  answer::Fit fit = answer_using(60 * kGiB);
  fit.memory.ranks[0].second = memory::PeakPoint{};
  fit.memory.ranks[0].second->allocated = 59 * kGiB;

  EXPECT_THAT(fit_report(fit, {}), HasSubstr("removing the first saves at most 1.00 GiB"));
}

TEST(FitReport, shows_refused_points_among_the_answers_of_a_sweep) {
  const answer::Sweep sweep{{{{{"tp", "2"}}, lever::Price{answer_using(60 * kGiB).memory, {}}},
                             {{{"tp", "3"}}, bad_input("heads 32 are not divisible by tp 3")}},
                            {}};

  const std::string text = sweep_report(sweep, {});

  EXPECT_THAT(text, HasSubstr("2   pp=0          60.00       60.00     20.00  0.0 ms             0  yes"));
  EXPECT_THAT(text, HasSubstr("cannot run: heads 32 are not divisible by tp 3"));
}

TEST(FitJson, is_valid_and_its_table_sums_to_the_capacity) {
  const Result<document::Node> root = document::parse_json(answer::to_json(answer_using(84 * kGiB)));

  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->find("schema")->integer, 1);
  EXPECT_FALSE(root->find("fits")->boolean);
  const document::Node& rank = root->find("ranks")->items[0];
  std::int64_t sum = 0;
  for (const document::Node& row : rank.find("table")->items) sum += row.find("bytes")->integer;
  EXPECT_EQ(sum, rank.find("capacity_bytes")->integer);
  EXPECT_EQ(rank.find("peak")->find("layer")->integer, 17);
}

TEST(FitJson, of_a_sweep_holds_answers_and_errors) {
  const answer::Sweep sweep{
      {{{{"tp", "2"}}, lever::Price{answer_using(60 * kGiB).memory, {}}}, {{{"tp", "3"}}, bad_input("no")}}, {}};

  const Result<document::Node> root = document::parse_json(answer::to_json(sweep));

  ASSERT_TRUE(root.has_value());
  EXPECT_TRUE(root->find("sweep")->items[0].find("fits")->boolean);
  EXPECT_EQ(root->find("sweep")->items[1].find("error")->text, "no");
}

TEST(FitText, describes_a_moment_by_what_applies_to_it) {
  EXPECT_EQ(answer::describe(backward_of_layer_17(), false), "backward, micro-batch 3, layer 17, fc2");
  EXPECT_EQ(answer::describe(backward_of_layer_17(), true), "backward, micro-batch 3, chunk 2, layer 17, fc2");
  EXPECT_EQ(answer::describe({step::Phase::kUpdate, step::Operation::kNone, 0, -1, -1}, true), "optimizer step");
}

TEST(FitText, names_only_the_sizes_that_split) {
  job::Job job;
  EXPECT_EQ(answer::describe_split(job), "not split");

  job.parallel.tensor = 4;
  job.parallel.expert = 8;
  job.parallel.expert_tensor = 1;
  job.data_parallel = 2;
  EXPECT_EQ(answer::describe_split(job), "tp 4, ep 8, etp 1, dp 2");
}

}  // namespace
}  // namespace plimsoll::cli
