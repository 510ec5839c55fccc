// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "capture/answer.h"
#include "capture/capture_samples.h"
#include "capture/sizes.h"
#include "capture/tape.h"

namespace plimsoll::capture {
namespace {

cluster::Gpu h200() { return *cluster::find_gpu("h200"); }

Capture recorded(const std::string& name) {
  Result<Capture> capture = read_capture(data_file(name));
  EXPECT_TRUE(capture) << to_string(capture.error());
  return *std::move(capture);
}

TEST(Tape, gradients_that_autograd_sums_are_summed_in_place) {
  const Capture by_engine = *read_text(small_capture("1"));
  const Capture by_code = *read_text(small_capture("0"));
  EXPECT_EQ(record(by_engine, {}).tape.peak(), 3 * 4096);
  EXPECT_EQ(record(by_code, {}).tape.peak(), 4 * 4096);
}

TEST(Answer, rows_sum_to_the_capacity_and_holders_to_the_peak) {
  const Answer found = answer(recorded("size-8x1024.capture"), h200(), {});
  std::int64_t sum = 0;
  for (const memory::Row& row : found.rank.table) sum += row.bytes;
  EXPECT_EQ(sum, found.rank.capacity);
  std::int64_t held = 0;
  for (const Holder& holder : found.holders) held += holder.bytes;
  EXPECT_EQ(held, found.rank.peak_requested);
  EXPECT_TRUE(found.rank.fits);
}

TEST(Answer, parameters_are_counted_once_each) {
  // Two layers of 64 wide with grouped heads, a vocabulary of 1000 at both ends.
  const std::int64_t layer = 64 * 64 * 2 + 2 * 32 * 64 + 3 * 64 * 176 + 2 * 64;
  EXPECT_EQ(recorded("size-2x64.capture").parameter_elements, 2 * layer + 2 * 64'000 + 64);
}

// Three layers and the root of a model on one of eight ranks, over PyTorch's fake process group; and the same model
// alone. Layers are gathered in both passes, the root once; each is reduced once.
TEST(Answer, a_rank_of_fsdp2_holds_its_share_and_gathers_the_rest) {
  const Capture rank = recorded("fsdp2-rank.capture");
  const Capture alone = recorded("fsdp2-alone.capture");
  EXPECT_EQ(8 * rank.parameter_elements, alone.parameter_elements);
  const auto count = [&rank](std::string_view name) {
    return std::ranges::count_if(
        rank.events, [&](const Event& event) { return event.kind == Kind::kOperation && rank.name_of(event) == name; });
  };
  EXPECT_EQ(count("c10d._allgather_base_.default"), 2 * (4 + 3));
  EXPECT_EQ(count("c10d._reduce_scatter_base_.default"), 2 * 4);
  EXPECT_LT(answer(rank, h200(), {}).rank.peak_requested, answer(alone, h200(), {}).rank.peak_requested);
}

TEST(Sizes, three_captures_answer_for_another_size_to_the_byte) {
  const std::vector<Capture> known = {recorded("size-2x64.capture"), recorded("size-3x64.capture"),
                                      recorded("size-2x96.capture")};
  const Result<Capture> scaled = at_size(known, 8, 1024);
  ASSERT_TRUE(scaled) << to_string(scaled.error());
  const Capture real = recorded("size-8x1024.capture");
  ASSERT_EQ(scaled->events.size(), real.events.size());
  ASSERT_EQ(scaled->tensors.size(), real.tensors.size());
  for (std::size_t i = 0; i < real.tensors.size(); ++i)
    ASSERT_TRUE(std::ranges::equal(scaled->shape_of(scaled->tensors[i]), real.shape_of(real.tensors[i]))) << i;
  for (std::size_t i = 0; i < real.events.size(); ++i) ASSERT_EQ(scaled->events[i].bytes, real.events[i].bytes) << i;
  EXPECT_EQ(answer(*scaled, h200(), {}).rank.peak_reserved, answer(real, h200(), {}).rank.peak_reserved);
}

TEST(Sizes, one_capture_answers_for_its_own_size_only) {
  const std::vector<Capture> known = {recorded("size-2x64.capture")};
  EXPECT_TRUE(at_size(known, 2, 64));
  const Result<Capture> other = at_size(known, 4, 64);
  ASSERT_FALSE(other);
  EXPECT_NE(to_string(other.error()).find("differ in batch and in length"), std::string::npos);
}

TEST(Sizes, captures_of_two_programs_are_refused) {
  Capture other = recorded("size-3x64.capture");
  for (Event& event : other.events)
    if (event.kind == Kind::kOperation) event.name = 0;
  const std::vector<Capture> known = {recorded("size-2x64.capture"), other, recorded("size-2x96.capture")};
  const Result<Capture> scaled = at_size(known, 8, 1024);
  ASSERT_FALSE(scaled);
  EXPECT_NE(to_string(scaled.error()).find("differs"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::capture
