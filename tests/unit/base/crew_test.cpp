// SPDX-License-Identifier: Apache-2.0
#include "base/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

#include "base/interrupt.h"

namespace plimsoll {
namespace {

TEST(Crew, all_items_are_done_by_any_number_of_workers) {
  for (const unsigned threads : {0U, 1U, 2U, 7U}) {
    std::vector<std::atomic<int>> done(100);
    std::atomic<std::size_t> next{0};
    share_work(threads, [&](unsigned) {
      for (std::size_t i = next++; i < done.size(); i = next++) ++done[i];
    });
    for (const auto& count : done) EXPECT_EQ(count, 1);
  }
}

TEST(Crew, what_a_worker_throws_is_thrown_in_the_caller) {
  for (const unsigned thrower : {0U, 1U}) {
    const auto work = [thrower](unsigned worker) {
      if (worker == thrower) throw std::bad_alloc();
    };
    EXPECT_THROW(share_work(2, work), std::bad_alloc);
  }
}

// Both parts once each, the second after its preparation; also where the work is shared already and one worker does
// all.
TEST(Crew, work_in_two_parts_is_done_once_and_in_order) {
  const auto in_parts = [] {
    std::vector<std::atomic<int>> first(50);
    std::vector<std::atomic<int>> second(70);
    std::atomic<bool> is_prepared{false};
    share_in_parts(
        first.size(), [&](std::size_t i) { ++first[i]; },
        [&] {
          is_prepared = true;
          return second.size();
        },
        [&](std::size_t i) {
          EXPECT_TRUE(is_prepared);
          ++second[i];
        });
    for (const auto& count : first) EXPECT_EQ(count, 1);
    for (const auto& count : second) EXPECT_EQ(count, 1);
  };
  for (int round = 0; round < 50; ++round) in_parts();
  share_work(2, [&](unsigned) { in_parts(); });
}

TEST(Crew, a_second_part_that_cannot_be_prepared_keeps_nobody_waiting) {
  std::atomic<int> done{0};
  const auto in_parts = [&done] {
    share_in_parts(
        20, [&done](std::size_t) { ++done; }, []() -> std::size_t { throw std::bad_alloc(); }, [](std::size_t) {});
  };
  EXPECT_THROW(in_parts(), std::bad_alloc);
  EXPECT_EQ(done, 20);
}

TEST(Crew, workers_stop_for_whom_they_work) {
  std::atomic<bool> mine{false};
  std::atomic<int> saw{0};
  const OwnStop own(mine);
  const auto work = [&saw](unsigned) { saw += interrupted() ? 1 : 0; };
  share_work(3, work);
  EXPECT_EQ(saw, 0);
  mine = true;
  share_work(3, work);
  EXPECT_EQ(saw, 3);
  EXPECT_FALSE(interrupt_flag());
}

TEST(Crew, an_own_stop_ends_with_its_scope) {
  std::atomic<bool> mine{true};
  {
    const OwnStop own(mine);
    EXPECT_TRUE(interrupted());
  }
  EXPECT_FALSE(interrupted());
}

}  // namespace
}  // namespace plimsoll
