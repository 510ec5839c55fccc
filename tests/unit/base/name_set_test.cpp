// SPDX-License-Identifier: Apache-2.0
#include "base/name_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace plimsoll {
namespace {

TEST(NameSet, answers_as_a_set_does_whatever_is_put_in_and_taken_out) {
  std::mt19937 random(7);
  const auto any_name = [&random] {
    std::string name;
    for (std::size_t letters = random() % 5; letters > 0; --letters) name += static_cast<char>('a' + random() % 3);
    return name;
  };
  NameSet names;
  std::set<std::string> expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = any_name();
    switch (random() % 3) {
      case 0:
        names.insert(name);
        expected.insert(name);
        break;
      case 1:
        names.erase(name);
        expected.erase(name);
        break;
      default:
        EXPECT_EQ(names.contains(name), expected.contains(name)) << name;
    }
    ASSERT_EQ(names.size(), expected.size());
  }
  EXPECT_TRUE(std::equal(names.begin(), names.end(), expected.begin(), expected.end()));
}

TEST(NameSet, equality_does_not_depend_on_the_order_of_insertion) {
  const NameSet one = {"bf16", "tp", "pp"};
  NameSet other = {"pp", "x", "tp"};
  EXPECT_FALSE(one == other);
  other.erase("x");
  other.insert("bf16");
  EXPECT_TRUE(one == other);
  EXPECT_FALSE(NameSet{}.contains(""));
  NameSet braces;
  braces.insert({"loss", "loss_chunks"});
  EXPECT_EQ(braces.size(), 2U);
  EXPECT_TRUE(braces.contains("loss_chunks"));
}

}  // namespace
}  // namespace plimsoll
