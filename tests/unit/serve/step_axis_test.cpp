// SPDX-License-Identifier: Apache-2.0
#include "serve/step_axis.h"

#include <gtest/gtest.h>

#include "job/request.h"
#include "serve/step_picture.h"

namespace plimsoll::serve {
namespace {

job::Job job_of(const std::string& text, const job::Settings& settings = {}) {
  job::ReadOptions options;
  options.overrides = settings;
  auto job = job::read_job({{"job.toml", text}}, options);
  EXPECT_TRUE(job.has_value()) << (job ? "" : to_string(job.error()));
  return *job;
}

const char* const kInterleaved = R"(
framework = "megatron-bridge"
model = "llama3-8b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 16
[parallel]
tensor_model_parallel_size = 2
pipeline_model_parallel_size = 4
virtual_pipeline_model_parallel_size = 4
[batch]
seq_length = 4096
micro_batch_size = 1
global_batch_size = 64
)";

const char* const kAlone = R"(
framework = "fsdp2"
model = "llama3-8b"
[cluster]
gpu = "h100-sxm-80gb"
gpus = 8
[batch]
seq_length = 4096
micro_batch_size = 1
global_batch_size = 64
[precision]
bf16 = true
)";

class StepAxisOfJobs : public testing::TestWithParam<std::pair<const char*, job::Settings>> {};

TEST_P(StepAxisOfJobs, covers_the_step_without_gaps_and_reaches_its_peak) {
  const job::Job job = job_of(GetParam().first, GetParam().second);
  for (std::int64_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const auto picture = make_step_picture(job, {}, rank);
    ASSERT_TRUE(picture.has_value()) << to_string(picture.error());
    const StepAxis& axis = picture->axis;
    ASSERT_FALSE(axis.pieces.empty()) << "rank " << rank;
    EXPECT_DOUBLE_EQ(axis.pieces.front().from, 0);
    EXPECT_NEAR(axis.pieces.back().to, picture->time.seconds, 1e-9);
    for (std::size_t i = 1; i < axis.pieces.size(); ++i)
      EXPECT_NEAR(axis.pieces[i].from, axis.pieces[i - 1].to, 1e-9) << "piece " << i;

    const auto columns = axis.columns(picture->course, 0, axis.seconds, 777);
    std::int64_t highest = 0;
    for (const memory::Column& column : columns) {
      highest = std::max(highest, column.allocated);
      std::int64_t sum = column.rounding;
      for (const std::int64_t bytes : column.categories) sum += bytes;
      EXPECT_EQ(sum, column.allocated);
    }
    if (axis.time_of(picture->course.walk.peak.event)) {
      EXPECT_EQ(highest, picture->course.walk.peak.allocated) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, StepAxisOfJobs,
    testing::Values(std::pair{kInterleaved, job::Settings{}},
                    std::pair{kInterleaved, job::Settings{{"virtual_pipeline_model_parallel_size", "1"}}},
                    std::pair{kInterleaved, job::Settings{{"global_batch_size", "1024"}}},
                    std::pair{kInterleaved, job::Settings{{"pipeline_model_parallel_size", "1"},
                                                          {"virtual_pipeline_model_parallel_size", "1"},
                                                          {"tensor_model_parallel_size", "8"}}},
                    std::pair{kAlone, job::Settings{}}));

TEST(StepPicture, columns_over_operations_keep_the_peak_at_every_width) {
  const auto picture = make_step_picture(job_of(kInterleaved), {}, 0);
  ASSERT_TRUE(picture.has_value());
  for (const std::size_t count : {1U, 7U, 100U, 5000U}) {
    const auto ranges = memory::even_ranges(0, picture->course.events(), count);
    std::int64_t highest = 0;
    for (const memory::Column& column : memory::columns_of(picture->course, ranges))
      highest = std::max(highest, column.allocated);
    EXPECT_EQ(highest, picture->course.walk.peak.allocated) << count;
  }
}

TEST(StepPicture, refuses_a_rank_that_the_job_lacks) {
  EXPECT_FALSE(make_step_picture(job_of(kInterleaved), {}, 4).has_value());
  EXPECT_FALSE(make_step_picture(job_of(kInterleaved), {}, -1).has_value());
}

}  // namespace
}  // namespace plimsoll::serve
