// SPDX-License-Identifier: Apache-2.0
#include "serve/cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace plimsoll::serve {
namespace {

Result<std::string> fail() { return bad_input("no"); }

TEST(Cache, keeps_what_was_made_and_no_errors) {
  Cache<std::string> cache(2);
  EXPECT_FALSE(cache.get("a", fail).has_value());
  EXPECT_EQ(**cache.get("a", [] { return Result<std::string>{"first"}; }), "first");
  EXPECT_EQ(**cache.get("a", fail), "first");
}

TEST(Cache, forgets_the_one_that_was_asked_for_longest_ago) {
  Cache<std::string> cache(2);
  const auto made = [] { return Result<std::string>{"kept"}; };
  for (const char* key : {"a", "b", "a", "c"}) ASSERT_TRUE(cache.get(key, made).has_value());
  EXPECT_TRUE(cache.get("a", fail).has_value());
  EXPECT_FALSE(cache.get("b", fail).has_value());
}

TEST(Cache, renews_what_was_made_before_the_question_came) {
  Cache<std::string> cache(2);
  EXPECT_EQ(**cache.get("a", [] { return Result<std::string>{"old"}; }), "old");
  EXPECT_EQ(**cache.renew("a", [] { return Result<std::string>{"new"}; }), "new");
  EXPECT_EQ(**cache.get("a", fail), "new");
  EXPECT_FALSE(cache.renew("a", fail).has_value());
}

// Two that come together are answered by one making. The first waits, while it makes, until the second has come.
TEST(Cache, who_comes_while_it_is_renewed_takes_that) {
  Cache<std::string> cache(2);
  std::mutex mutex;
  std::condition_variable turn;
  bool is_making = false;
  std::thread first([&] {
    const auto made = cache.renew("a", [&] {
      {
        const std::lock_guard lock(mutex);
        is_making = true;
      }
      turn.notify_one();
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return Result<std::string>{"first"};
    });
    EXPECT_EQ(**made, "first");
  });
  {
    std::unique_lock lock(mutex);
    turn.wait(lock, [&] { return is_making; });
  }
  EXPECT_EQ(**cache.renew("a", [] { return Result<std::string>{"second"}; }), "first");
  first.join();
}

}  // namespace
}  // namespace plimsoll::serve
