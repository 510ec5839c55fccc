// SPDX-License-Identifier: Apache-2.0
// Claims that hold for every Megatron job, tried on thousands of random ones.
#include <tuple>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "job/pipeline_layout.h"
#include "memory/answer.h"
#include "memory/walk.h"
#include "random_job.h"
#include "step/program.h"

namespace plimsoll {
namespace {

using testing::random_megatron_job;

constexpr std::uint64_t kJobs = 3000;

std::int64_t folded_peak_of(const job::Job& job, std::int64_t stage) {
  step::Tape tape;
  step::run_rank(job, job::pipeline_layout(job).value(), stage, tape, true);
  return tape.peak();
}

TEST(MegatronProperty, the_folded_answer_equals_the_walked_one) {
  std::uint64_t tried = 0;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const job::PipelineLayout layout = job::pipeline_layout(*job).value();
    const auto stage = static_cast<std::int64_t>(seed) % job->parallel.pipeline;
    step::Tape walked(true);
    step::run_rank(*job, layout, stage, walked, false);
    step::Tape folded;
    step::run_rank(*job, layout, stage, folded, true);
    ASSERT_EQ(folded.peak(), walked.peak()) << "seed " << seed;
    ASSERT_EQ(folded.live(), walked.live()) << "seed " << seed;
    ++tried;
  }
  EXPECT_GT(tried, kJobs / 2) << "most draws should be real jobs";
}

TEST(MegatronProperty, a_pass_that_is_repeated_is_the_pass_that_its_layers_would_write) {
  std::size_t copied = 0;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const job::PipelineLayout layout = job::pipeline_layout(*job).value();
    const auto stage = static_cast<std::int64_t>(seed) % job->parallel.pipeline;
    step::Tape written(true);
    written.write_all();
    step::run_rank(*job, layout, stage, written, false);
    step::Tape repeated(true);
    step::run_rank(*job, layout, stage, repeated, false);
    const memory::Walk walked = memory::walk(repeated, {}, 0, false);
    repeated.write_out();
    ASSERT_EQ(repeated.events().size(), written.events().size()) << "seed " << seed;
    for (std::size_t i = 0; i < written.events().size(); ++i) {
      const step::Event& a = repeated.events()[i];
      const step::Event& b = written.events()[i];
      ASSERT_EQ(std::tie(a.bytes, a.requested, a.id, a.name, a.stream),
                std::tie(b.bytes, b.requested, b.id, b.name, b.stream))
          << "seed " << seed << ", event " << i;
    }
    ASSERT_EQ(repeated.marks().size(), written.marks().size()) << "seed " << seed;
    for (std::size_t i = 0; i < written.marks().size(); ++i) {
      ASSERT_EQ(repeated.marks()[i].event, written.marks()[i].event) << "seed " << seed << ", mark " << i;
      ASSERT_EQ(repeated.marks()[i].moment, written.marks()[i].moment) << "seed " << seed << ", mark " << i;
    }
    ASSERT_EQ(repeated.tensors(), written.tensors()) << "seed " << seed;
    ASSERT_EQ(repeated.live(), written.live()) << "seed " << seed;
    ASSERT_EQ(repeated.peak(), written.peak()) << "seed " << seed;
    ASSERT_EQ(repeated.peak_moment(), written.peak_moment()) << "seed " << seed;
    ASSERT_EQ(repeated.moment(), written.moment()) << "seed " << seed;
    const memory::Walk plain = memory::walk(written, {}, 0, false);
    ASSERT_EQ(std::tie(walked.peak.allocated, walked.peak.event, walked.peak_reserved, walked.driver_calls),
              std::tie(plain.peak.allocated, plain.peak.event, plain.peak_reserved, plain.driver_calls))
        << "seed " << seed;
    copied += repeated.repeats() > 0 ? 1 : 0;
  }
  EXPECT_GT(copied, kJobs / 4) << "many jobs should have passes to repeat";
}

TEST(MegatronProperty, nothing_is_freed_twice_and_ids_are_matched) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    step::Tape tape(true);
    step::run_rank(*job, job::pipeline_layout(*job).value(), 0, tape, false);
    tape.write_out();
    std::vector<std::int64_t> live;
    for (const step::Event& event : tape.events()) {
      if (event.bytes > 0) {
        ASSERT_EQ(event.id, live.size());
        live.push_back(event.bytes);
      } else if (event.bytes < 0) {
        ASSERT_EQ(live.at(event.id), -event.bytes) << "seed " << seed;
        live[event.id] = 0;
      }
    }
  }
}

TEST(MegatronProperty, the_table_of_a_rank_sums_to_the_device) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const auto answer = memory::answer(*job, {});
    ASSERT_TRUE(answer) << to_string(answer.error());
    for (const memory::RankAnswer& rank : answer->ranks) {
      std::int64_t sum = 0;
      for (const memory::Row& row : rank.table) sum += row.bytes;
      ASSERT_EQ(sum, rank.capacity) << "seed " << seed;
      ASSERT_GE(rank.peak_reserved, rank.peak_allocated);
      ASSERT_GE(rank.peak_allocated, rank.peak_requested);
    }
  }
}

TEST(MegatronProperty, memory_never_falls_when_the_micro_batch_grows) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    auto job = random_megatron_job(seed);
    if (!job) continue;
    auto larger = *job;
    larger.batch.micro_batch *= 2;
    larger.batch.global_batch = *larger.batch.global_batch * 2;
    if (!job::complete(larger)) continue;
    for (std::int64_t stage = 0; stage < job->parallel.pipeline; ++stage)
      ASSERT_GE(folded_peak_of(larger, stage), folded_peak_of(*job, stage)) << "seed " << seed;
  }
}

TEST(MegatronProperty, memory_never_falls_when_the_sequence_grows) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    auto job = random_megatron_job(seed);
    if (!job) continue;
    auto longer = *job;
    longer.batch.seq_length *= 2;
    if (!job::complete(longer)) continue;
    ASSERT_GE(folded_peak_of(longer, 0), folded_peak_of(*job, 0)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll
