// SPDX-License-Identifier: Apache-2.0
// Errors of predictions: quantiles by nearest rank, statistics by quantity and group.
#include "truth/score.h"

#include <gtest/gtest.h>

#include "memory/answer.h"
#include "support.h"

namespace plimsoll::truth {
namespace {

TEST(Quantile, takes_the_nearest_rank) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.2), 1);
  EXPECT_EQ(quantile(values, 0.21), 2);
  EXPECT_EQ(quantile(values, 0.5), 3);
  EXPECT_EQ(quantile(values, 0.9), 5);
  EXPECT_EQ(quantile(values, 1), 5);
}

TEST(Quantile, of_one_value_is_that_value_and_of_none_is_zero) {
  EXPECT_EQ(quantile({7}, 0.5), 7);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Quantile, the_ninth_of_ten_is_the_90th_percentile) {
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 9);
}

struct Made {
  RecordFile file;
  FileScore score;
};

// Errors of -4, 1 and 2 %; the first two are of group "a".
Made made() {
  Made m;
  m.file.records.resize(3);
  m.file.records[0].groups["kind"] = "a";
  m.file.records[1].groups["kind"] = "a";
  m.file.records[2].groups["other"] = "b";
  const double errors[] = {-4, 1, 2};
  for (std::size_t i = 0; i < 3; ++i) m.score.rows.push_back({"r", "peak_allocated", 100, 100, errors[i], i});
  m.score.rows.push_back({"r", "peak_reserved", 100, 100, 50, 0});
  return m;
}

TEST(Statistics, are_of_absolute_errors_and_keep_the_sign_apart) {
  const Made m = made();
  const Statistics s = statistics(m.score, m.file, "peak_allocated");
  EXPECT_EQ(s.count, 3U);
  EXPECT_EQ(s.median_pct, 2);
  EXPECT_EQ(s.p90_pct, 4);
  EXPECT_EQ(s.max_pct, 4);
  EXPECT_EQ(s.signed_median_pct, 1);
}

TEST(Statistics, are_of_one_group_where_one_is_given) {
  const Made m = made();
  const Statistics a = statistics(m.score, m.file, "peak_allocated", "kind", "a");
  EXPECT_EQ(a.count, 2U);
  EXPECT_EQ(a.median_pct, 1);
  EXPECT_EQ(a.signed_median_pct, -4);
  EXPECT_EQ(statistics(m.score, m.file, "peak_allocated", "kind", "none").count, 1U) << "records without the key";
  EXPECT_EQ(statistics(m.score, m.file, "peak_reserved").max_pct, 50);
  EXPECT_EQ(statistics(m.score, m.file, "step_seconds").count, 0U);
}

TEST(Score, compares_the_prediction_of_the_recorded_rank_with_the_measurement) {
  auto file = read_records("small.json", test::file_of(test::kMegatron));
  ASSERT_TRUE(file);
  const FileScore s = score(*file);
  EXPECT_EQ(s.records, 1U);
  EXPECT_EQ(s.scored, 1U);
  ASSERT_EQ(s.rows.size(), 2U);
  memory::AskedRanks asked;
  asked.pp = 1;
  const auto answer = memory::answer(file->records[0].job, asked);
  ASSERT_TRUE(answer);
  const auto predicted = static_cast<double>(answer->ranks.front().peak_allocated);
  EXPECT_EQ(s.rows[0].quantity, "peak_allocated");
  EXPECT_EQ(s.rows[0].predicted, predicted);
  EXPECT_DOUBLE_EQ(s.rows[0].error_pct, (predicted - 1e8) / 1e8 * 100);
}

TEST(Score, skipped_records_and_ranks_that_do_not_exist_keep_their_reason) {
  auto file = read_records("small.json",
                           test::file_of(test::with(test::kThroughput, R"("gbs": 128)", R"("gbs": null)") + "," +
                                         test::with(test::kMegatron, R"("rank": {"pp": 1})", R"("rank": {"pp": 7})")));
  ASSERT_TRUE(file);
  const FileScore s = score(*file);
  EXPECT_EQ(s.scored, 0U);
  ASSERT_EQ(s.skipped.size(), 2U);
  EXPECT_NE(s.skipped[0].reason.find("global batch"), std::string::npos);
  EXPECT_NE(s.skipped[1].reason.find("pipeline ranks 0 to 1"), std::string::npos);
}

TEST(Score, a_record_without_a_measurement_has_no_row) {
  auto file =
      read_records("small.json", test::file_of(test::with(test::kMegatron, R"(, "peak_reserved": 120000000)", "")));
  ASSERT_TRUE(file);
  EXPECT_EQ(score(*file).rows.size(), 1U);
}

}  // namespace
}  // namespace plimsoll::truth
