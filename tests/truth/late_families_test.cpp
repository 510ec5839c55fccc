// SPDX-License-Identifier: Apache-2.0
// Families that no GPU recorded, held to captures of their real code: what `fit` says of a config.json against what the
// operations of the model itself come to (tests/data/captures/late-a100.json says how they were made).
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "base/file.h"
#include "capture/answer.h"
#include "job/pipeline_layout.h"
#include "memory/tape_difference.h"
#include "step/program.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

// The first request of a step that the code makes and ours does not, and the other way round.
std::string first_difference(const Record& record, const capture::Capture& captured, const cluster::Gpu& gpu) {
  step::Tape ours(true);
  ours.write_all();
  (void)step::run_rank(record.job, *job::pipeline_layout(record.job), 0, ours, false);
  const capture::Recorded code = capture::record_on(captured, gpu);
  const memory::TapeDifference found = memory::compare({ours, 0}, {code.tape, 0});
  std::string text = "the requests are the same";
  if (!found.requested_by_a.empty()) {
    const memory::TapeTensor& first = found.requested_by_a.front();
    text = fmt::format("first of ours: {} bytes, {}, {} of layer {}", first.bytes, step::text_of(first.name),
                       step::text_of(first.made.operation), first.made.layer);
  }
  if (!found.requested_by_b.empty()) {
    const memory::TapeTensor& first = found.requested_by_b.front();
    const capture::Origin origin = capture::origin_of(captured, code.makers, first.id);
    text += fmt::format("; first of the code: {} bytes, {} of {}", first.bytes, origin.operation, origin.place);
  }
  return text;
}

TEST(LateFamilies, a_config_comes_to_what_its_captured_code_comes_to) {
  // FlexOlmo is 1.3 % below its capture, which was made by PyTorch 2.6, whose experts run without grouped products (why
  // is not proven); all others are within 1.2 %.
  constexpr double kBar = 1.5;
  const std::string folder = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/captures/";
  const std::string path = folder + "late-a100.json";
  Result<RecordFile> file = read_records(path, *read_file(path));
  ASSERT_TRUE(file) << to_string(file.error());
  const FileScore scored = score(*file, {nullptr, true, false});
  EXPECT_EQ(scored.scored, scored.records);
  ASSERT_GE(scored.rows.size(), 37U);
  for (const ScoredRow& row : scored.rows) {
    const Result<capture::Capture> captured = capture::read_capture(folder + row.id + ".capture");
    ASSERT_TRUE(captured) << to_string(captured.error());
    const cluster::Gpu gpu = *cluster::find_gpu("a100-sxm-80gb");
    const capture::Answer found = capture::answer(*captured, gpu, {});
    const double percent = 100 * (row.predicted / static_cast<double>(found.rank.peak_allocated) - 1);
    fmt::print("{:<28} {:+.3f} %\n", row.id, percent);
    EXPECT_LE(std::abs(percent), kBar) << row.id << ": " << first_difference(file->records[row.record], *captured, gpu);
    EXPECT_EQ(row.measured, static_cast<double>(found.rank.peak_allocated)) << row.id;
  }
}

}  // namespace
}  // namespace plimsoll::truth
