// SPDX-License-Identifier: Apache-2.0
#include "base/spares.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Spares, what_is_given_back_is_used_again_with_its_room) {
  Spares<std::vector<int>> spares(2);
  const int* room = nullptr;
  {
    auto borrowed = spares.borrow();
    (*borrowed).assign(1000, 7);
    room = (*borrowed).data();
  }
  auto again = spares.borrow();
  EXPECT_EQ((*again).data(), room);
  EXPECT_EQ((*again).size(), 1000U) << "emptying it is up to whoever borrows it";
}

TEST(Spares, two_at_once_are_two_values) {
  Spares<std::vector<int>> spares(2);
  auto one = spares.borrow();
  auto other = spares.borrow();
  EXPECT_NE(&*one, &*other);
}

TEST(Spares, no_more_wait_than_were_allowed) {
  Spares<std::vector<int>> spares(1);
  {
    auto one = spares.borrow();
    auto other = spares.borrow();
    (*one).assign(10, 1);
    (*other).assign(10, 1);
  }
  auto kept = spares.borrow();
  auto fresh = spares.borrow();
  EXPECT_EQ((*kept).size() + (*fresh).size(), 10U) << "the second one was freed";
}

}  // namespace
}  // namespace plimsoll
