// SPDX-License-Identifier: Apache-2.0
// Peaks of the first step, which the recordings of the Trainer have beside those that are scored. Before the optimizer
// has its states no block is shared with what lives for good, so the order of every tensor shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"
#include "document/node.h"
#include "memory/course.h"
#include "truth/record.h"

namespace plimsoll::truth {
namespace {

struct Error {
  double percent = 100;
  bool at_update = false;  // states lie in the ends of blocks, whose rests count
};

Error error_of(const Record& record, double measured) {
  const Result<memory::Course> course = memory::make_course(record.job, record.pp_rank);
  if (!course) return {};
  const auto peak_of = [&course](step::Phase phase) {
    return course->walk.by_phase[static_cast<std::size_t>(phase)].peak_allocated;
  };
  const std::int64_t passes = std::max(peak_of(step::Phase::kFirstForward), peak_of(step::Phase::kFirstBackward));
  const std::int64_t update = peak_of(step::Phase::kFirstUpdate);
  return {100 * (static_cast<double>(std::max(passes, update)) / measured - 1), update > passes};
}

// Families that are walked tensor by tensor, and how near, in percent.
double bar_of(std::string_view kind) {
  for (const std::string_view one : {"mamba", "falcon_mamba", "jamba", "gptj", "gpt_bigcode"})
    if (kind == one) return 0.01;
  return kind == "distilbert" ? 0.06 : 0;
}

TEST(FirstStep, families_that_are_walked_tensor_by_tensor) {
  std::size_t seen = 0;
  for (const char* name : {"late-h200.json", "models-h200.json", "trainer-families-h200.json"}) {
    const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth/" + name;
    const std::string text = *read_file(path);
    const Result<RecordFile> file = read_records(path, text);
    ASSERT_TRUE(file) << to_string(file.error());
    const document::Node root = document::parse_json(text).value();
    const std::vector<document::Node>& rows = root.find("records")->items;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string kind = text_of(*rows[i].find("config"), "model_type");
      const double bar = bar_of(kind);
      if (bar == 0) continue;
      const auto measured = static_cast<double>(integer_or(*rows[i].find("measured"), "first_step_peak_allocated", 0));
      ASSERT_GT(measured, 0) << file->records[i].id;
      const Error error = error_of(file->records[i], measured);
      fmt::print("{:<24} {:+.4f} %\n", file->records[i].id, error.percent);
      EXPECT_LE(std::abs(error.percent), error.at_update ? 0.1 : bar) << file->records[i].id;
      ++seen;
    }
  }
  EXPECT_EQ(seen, 12U);
}

}  // namespace
}  // namespace plimsoll::truth
