// SPDX-License-Identifier: Apache-2.0
#include "why/arithmetic.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace plimsoll::why {
namespace {

// Of a device of 80 GiB with 60 GiB of this process's cache.
OomNumbers message(std::vector<ProcessUse> processes, std::int64_t free) {
  OomNumbers oom;
  oom.request = kGiB;
  oom.total = 80 * kGiB;
  oom.free = free;
  oom.allocated = 59 * kGiB;
  oom.reserved_unallocated = kGiB;
  oom.reserved = 60 * kGiB;
  oom.processes = std::move(processes);
  return oom;
}

TEST(Arithmetic, a_process_that_leaves_no_room_for_this_one_is_this_one) {
  // 79 GiB by one process beside 60 GiB of ours would be 139 of 80: what it holds beyond the cache is our own.
  const Arithmetic sum = arithmetic_of(message({{4711, 79 * kGiB}}, kGiB), false);
  EXPECT_EQ(sum.others, 0);
  EXPECT_EQ(sum.own_outside, 19 * kGiB);
}

TEST(Arithmetic, a_process_beside_this_one_is_another) {
  const Arithmetic sum = arithmetic_of(message({{4711, 18 * kGiB}}, 2 * kGiB), false);
  EXPECT_EQ(sum.others, 18 * kGiB);
}

TEST(Arithmetic, of_several_the_one_that_holds_what_we_hold_is_this_one) {
  const Arithmetic sum = arithmetic_of(message({{1, 18 * kGiB}, {2, 61 * kGiB}}, kGiB), false);
  EXPECT_EQ(sum.others, 18 * kGiB);
  EXPECT_EQ(sum.own_outside, kGiB);
}

}  // namespace
}  // namespace plimsoll::why
