// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/tape_difference.h"

namespace plimsoll::memory {
namespace {

using step::Name;
using step::Phase;
using step::Tape;
using step::Tensor;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kKib = 1024;

// Weights, and a step that keeps `kept` and has temporaries of these sizes behind it.
struct Written {
  Tape tape{true};
  std::uint32_t peak = 0;

  explicit Written(const std::vector<std::int64_t>& kept, const std::vector<std::int64_t>& temporaries = {}) {
    tape.enter(Phase::kModel);
    (void)tape.alloc(64 * kKib, Name::kWeight);
    tape.enter(Phase::kForward);
    std::int16_t layer = 0;
    std::vector<Tensor> alive;
    for (const std::int64_t bytes : kept) {
      tape.layer(layer++);
      alive.push_back(tape.alloc(bytes, Name::kNormInput));
    }
    peak = static_cast<std::uint32_t>(tape.size() - 1);
    for (const std::int64_t bytes : temporaries) tape.touch(bytes, Name::kHidden);
    tape.enter(Phase::kBackward);
    for (Tensor& tensor : alive) tape.free(tensor);
  }
  [[nodiscard]] TapeAtPeak at_peak() const { return {tape, peak}; }
};

TEST(TapeDifference, a_step_does_not_differ_from_itself) {
  const Written one({kKib, 2 * kKib, kKib}, {8 * kKib});
  const TapeDifference found = compare(one.at_peak(), one.at_peak());
  EXPECT_THAT(found.only_a, IsEmpty());
  EXPECT_THAT(found.only_b, IsEmpty());
  EXPECT_THAT(found.requested_by_a, IsEmpty());
  EXPECT_THAT(found.requested_by_b, IsEmpty());
  EXPECT_EQ(found.same_requests, 4U);
}

TEST(TapeDifference, the_tensor_that_one_step_keeps_alone_is_named) {
  const Written with({kKib, 2 * kKib, 4 * kKib, 2 * kKib});
  const Written without({kKib, 2 * kKib, 2 * kKib});
  const TapeDifference found = compare(with.at_peak(), without.at_peak());
  ASSERT_THAT(found.only_a, SizeIs(1));
  EXPECT_EQ(found.only_a[0].bytes, 4 * kKib);
  EXPECT_EQ(found.only_a[0].made.layer, 2);
  EXPECT_EQ(found.only_a[0].made.phase, Phase::kForward);
  EXPECT_EQ(found.only_a[0].name, Name::kNormInput);
  EXPECT_THAT(found.only_b, IsEmpty());
  ASSERT_THAT(found.requested_by_a, SizeIs(1));
  EXPECT_EQ(found.requested_by_a[0].bytes, 4 * kKib);
  EXPECT_EQ(found.same_requests, 3U);
}

TEST(TapeDifference, temporaries_differ_in_what_is_requested_alone) {
  const Written a({kKib}, {8 * kKib, 3 * kKib});
  const Written b({kKib}, {8 * kKib});
  const TapeDifference found = compare(a.at_peak(), b.at_peak());
  EXPECT_THAT(found.only_a, IsEmpty());
  ASSERT_THAT(found.requested_by_a, SizeIs(1));
  EXPECT_EQ(found.requested_by_a[0].name, Name::kHidden);
  EXPECT_THAT(found.requested_by_b, IsEmpty());
}

TEST(TapeDifference, the_same_tensors_in_another_order_are_the_same) {
  const Written a({kKib, 2 * kKib, 4 * kKib});
  const Written b({4 * kKib, kKib, 2 * kKib});
  const TapeDifference found = compare(a.at_peak(), b.at_peak());
  EXPECT_THAT(found.only_a, IsEmpty());
  EXPECT_THAT(found.only_b, IsEmpty());
  EXPECT_THAT(found.requested_by_a, IsEmpty());
  EXPECT_EQ(found.same_requests, 3U);
}

TEST(TapeDifference, what_is_alive_alone_sums_to_the_difference_of_the_peaks) {
  const Written a({kKib, 2 * kKib, 16 * kKib, 512});
  const Written b({2 * kKib, kKib, kKib, 4 * kKib});
  const TapeDifference found = compare(a.at_peak(), b.at_peak());
  std::int64_t sum = 0;
  for (const TapeTensor& tensor : found.only_a) sum += tensor.bytes;
  for (const TapeTensor& tensor : found.only_b) sum -= tensor.bytes;
  EXPECT_EQ(sum, a.tape.peak() - b.tape.peak());
}

TEST(TapeDifference, weights_renamed_later_have_the_name_of_the_peak) {
  Tape tape(true);
  tape.enter(Phase::kForward);
  Tensor tensor = tape.alloc(kKib, Name::kHidden);
  tape.rename(tensor, Name::kNormInput);
  Tensor gone = tape.alloc(kKib, Name::kHidden);
  tape.free(gone);
  const auto alive = tensors_at(tape, static_cast<std::uint32_t>(tape.size() - 1));
  ASSERT_THAT(alive, SizeIs(1));
  EXPECT_EQ(alive[0].name, Name::kNormInput);
}

}  // namespace
}  // namespace plimsoll::memory
