// SPDX-License-Identifier: Apache-2.0
#include "timing/queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::timing {
namespace {

TEST(Queue, a_kernel_waits_for_its_launch_and_for_the_one_before) {
  Queue queue;
  queue.issue({2, 5});
  EXPECT_EQ(queue.seconds(), 7);
  queue.issue({2, 1});
  EXPECT_EQ(queue.seconds(), 8) << "launched while the first ran";
  queue.issue({10, 1});
  EXPECT_EQ(queue.seconds(), 15) << "the host was late";
}

TEST(Queue, a_drain_takes_the_lead_away) {
  Queue ahead;
  Queue drained;
  for (int i = 0; i < 10; ++i) {
    ahead.issue({1, 2});
    drained.issue({1, 2});
    drained.drain(0.5);
  }
  EXPECT_EQ(ahead.seconds(), 21);
  EXPECT_EQ(drained.seconds(), 35) << "launch, kernel and wait, one after the other";
}

TEST(Queue, work_that_alternates_between_host_and_gpu_costs_the_sum_of_both_when_drained) {
  const std::vector<Launch> launches = {{4, 0}, {0, 6}};
  EXPECT_EQ(drained_seconds(launches), 10);
  EXPECT_EQ(lost_to_drain(launches, 1), 10 - 6 + 1);
  const std::vector<Launch> other = {{0, 6}, {4, 0}};
  EXPECT_EQ(drained_seconds(other), 6) << "the host is done before the GPU";
}

}  // namespace
}  // namespace plimsoll::timing
