// SPDX-License-Identifier: Apache-2.0
// A whole rank against the worked example of facts megatron-anatomy.md 9: Llama-3 70B, TP4 PP4 VPP5 DP2.
#include <gtest/gtest.h>

#include "memory/walk.h"
#include "step/program.h"
#include "support.h"

namespace plimsoll::step {
namespace {

using test::completed;
using test::llama_70b;

job::Job example() {
  job::RecomputeModules modules;
  modules.core_attn = true;
  return completed(test::with_selective(llama_70b(), modules));
}

Tape run(const job::Job& job, std::int64_t rank, bool folded) {
  Tape tape(!folded);
  const auto layout = job::pipeline_layout(job);
  EXPECT_TRUE(layout);
  (void)run_rank(job, *layout, rank, tape, folded);
  tape.write_out();
  return tape;
}

std::int64_t alive(const std::vector<memory::Alive>& list, Name name) {
  for (const memory::Alive& a : list)
    if (a.name == name) return a.bytes;
  return 0;
}

TEST(WorkedExample, the_first_rank_peaks_at_79149_mib) {
  for (const bool folded : {false, true}) {
    const Tape tape = run(example(), 0, folded);
    EXPECT_EQ(tape.peak() / kMiB, 79149) << (folded ? "folded" : "walked");
    // Measured with expandable segments, where blocks have no slack: 82,993,822,208 bytes.
    EXPECT_NEAR(static_cast<double>(tape.peak()), 82'993'822'208.0, 1e6);
  }
}

TEST(WorkedExample, the_peak_is_in_the_backward_of_fc1) {
  const Tape tape = run(example(), 0, false);
  EXPECT_EQ(tape.peak_moment().phase, Phase::kBackward);
  EXPECT_EQ(tape.peak_moment().operation, Operation::kFc1Linear);
}

TEST(WorkedExample, the_parts_alive_at_the_peak_are_those_of_the_table) {
  const Tape tape = run(example(), 0, false);
  std::int64_t live = 0;
  std::uint32_t peak_event = 0;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    live += tape.events()[i].bytes;
    if (live == tape.peak()) peak_event = static_cast<std::uint32_t>(i);
  }
  const auto list = memory::alive_at(tape, peak_event);
  EXPECT_EQ(alive(list, Name::kParamBuffer) / kMiB, 8661) << "8661.5: 2 bytes of 4,541,186,048 parameters";
  EXPECT_EQ(alive(list, Name::kGradBuffer) / kMiB, 17323);
  EXPECT_NEAR(static_cast<double>(alive(list, Name::kMainParam) + alive(list, Name::kMoment)) / kMiB, 25985, 1);
  // 23 chunk sets of 4 layers; the layer in backward has freed fc1's and the activation's output.
  EXPECT_EQ(alive(list, Name::kFc1), (23 * 4 - 1) * 112 * kMiB);
  EXPECT_EQ(alive(list, Name::kActivation), (23 * 4 - 1) * 56 * kMiB);
  EXPECT_EQ(alive(list, Name::kQkv), 23 * 4 * 20 * kMiB);
  EXPECT_EQ(alive(list, Name::kLogSumExp), 0);
  EXPECT_EQ(alive(list, Name::kCublas), 64 * kMiB);
  EXPECT_EQ(alive(list, Name::kGatherBuffer), 64 * kMiB);
  EXPECT_EQ(alive(list, Name::kWeightGrad), 224 * kMiB);
}

TEST(WorkedExample, parameters_on_each_rank_sum_to_the_model) {
  const job::Job job = example();
  const auto layout = job::pipeline_layout(job);
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Tape tape;
    sum += run_rank(job, *layout, rank, tape, true).parameters;
  }
  // Norm weights (8192 each, 161 of them) are on all four tensor-parallel ranks, the rest is split.
  const std::int64_t norms = 161 * 8192;
  EXPECT_EQ((sum - norms) * 4 + norms, 70'553'706'496);
}

TEST(WorkedExample, the_first_rank_holds_the_recorded_parameters) {
  Tape tape;
  const job::Job job = example();
  EXPECT_EQ(run_rank(job, *job::pipeline_layout(job), 0, tape, true).parameters, 4'541'186'048);
}

}  // namespace
}  // namespace plimsoll::step
