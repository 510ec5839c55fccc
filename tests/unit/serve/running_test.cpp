// SPDX-License-Identifier: Apache-2.0
#include "serve/running.h"

#include <gtest/gtest.h>

namespace plimsoll::serve {
namespace {

TEST(Running, gives_up_the_question_of_that_name_alone) {
  Running running;
  const Running::Entry one(running, "one");
  const Running::Entry other(running, "other");
  const Running::Entry unnamed(running, "");
  running.give_up("one");
  running.give_up("");
  EXPECT_TRUE(one.flag());
  EXPECT_FALSE(other.flag());
  EXPECT_FALSE(unnamed.flag());
}

TEST(Running, remembers_a_name_that_comes_later_once) {
  Running running;
  running.give_up("late");
  const Running::Entry first(running, "late");
  const Running::Entry again(running, "late");
  EXPECT_TRUE(first.flag());
  EXPECT_FALSE(again.flag());
}

TEST(Running, forgets_the_oldest_of_many_names) {
  Running running;
  for (int i = 0; i < 1000; ++i) running.give_up(std::to_string(i));
  const Running::Entry old(running, "0");
  const Running::Entry latest(running, "999");
  EXPECT_FALSE(old.flag());
  EXPECT_TRUE(latest.flag());
}

TEST(Running, a_server_that_ends_gives_up_all_and_what_comes) {
  Running running;
  const Running::Entry before(running, "");
  running.give_up_all();
  const Running::Entry after(running, "");
  EXPECT_TRUE(before.flag());
  EXPECT_TRUE(after.flag());
}

}  // namespace
}  // namespace plimsoll::serve
