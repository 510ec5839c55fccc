// SPDX-License-Identifier: Apache-2.0
#include "document/json_front.h"

#include <gtest/gtest.h>

namespace plimsoll::document {
namespace {

TEST(JsonFront, reads_the_first_value_and_leaves_what_follows) {
  const Result<Node> entry = parse_json_front("\n  {\"name\": \"a\", \"sizes\": [1, 2]},\n  {\"name\": ");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->find("name")->text, "a");
  EXPECT_EQ(entry->find("sizes")->items.size(), 2U);
}

TEST(JsonFront, a_value_that_is_cut_is_refused) {
  EXPECT_FALSE(parse_json_front("{\"name\": \"a\", \"sizes\": [1, "));
  EXPECT_FALSE(parse_json_front(""));
  EXPECT_FALSE(parse_json_front("   "));
}

}  // namespace
}  // namespace plimsoll::document
