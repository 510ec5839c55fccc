// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Versions, the_first_two_numbers_are_what_counts) {
  EXPECT_EQ(leading_version("2.6"), (Version{2, 6}));
  EXPECT_EQ(leading_version(" 2.11.0+cu130 "), (Version{2, 11}));
  EXPECT_EQ(leading_version("2.12.0a0+6de6362"), (Version{2, 12}));
  EXPECT_LT((Version{2, 9}), (Version{2, 11}));
}

TEST(Versions, words_and_halves_are_none) {
  for (const char* bad : {"", "2", "two", "2.", ".6", "-2.6", "2.-6", "2.6x", "99999999999.1", "2.99999999999"})
    EXPECT_FALSE(leading_version(bad)) << bad;
}

}  // namespace
}  // namespace plimsoll
