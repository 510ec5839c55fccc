// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/file.h"

namespace plimsoll {
namespace {

Result<int> fails() { return bad_input("found 3, wanted 4", "use 4"); }
Result<int> passes_on() {
  PLIMSOLL_TRY(value, fails());
  return value + 1;
}
Status passes_on_status() {
  PLIMSOLL_TRY_STATUS(Status(bad_input("no")));
  return {};
}

TEST(Result, errors_pass_through_with_code_and_hint) {
  ASSERT_FALSE(passes_on());
  EXPECT_EQ(passes_on().error().code, Code::kBadInput);
  EXPECT_EQ(passes_on().error().hint, "use 4");
  EXPECT_FALSE(passes_on_status());
}

TEST(Result, the_outermost_context_is_printed_first) {
  Error error = std::move(fails().error()).with_context("[parallel]").with_context("job.toml");
  EXPECT_EQ(to_string(error), "job.toml: [parallel]: found 3, wanted 4");
}

TEST(Checked, overflow_is_no_value) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_add(2, 3), 5);
  EXPECT_EQ(checked_add(most, 1), std::nullopt);
  EXPECT_EQ(checked_mul(most / 2, 2), most - 1);
  EXPECT_EQ(checked_mul(most, 2), std::nullopt);
  EXPECT_EQ(round_up(513, 512), 1024);
  EXPECT_EQ(ceil_div(0, 7), 0);
}

TEST(File, what_cannot_be_read_is_an_error_that_names_it) {
  EXPECT_NE(read_file("no/such/file").error().message.find("no/such/file"), std::string::npos);
  EXPECT_NE(read_file(PLIMSOLL_SOURCE_DIR).error().message.find("is a folder"), std::string::npos);
  EXPECT_NE(read_file(PLIMSOLL_SOURCE_DIR "/README.md", 1 << 10).error().message.find("larger than"),
            std::string::npos);
  EXPECT_NE(read_file("/dev/zero").error().message.find("is a device"), std::string::npos);
}

TEST(File, parts_of_paths) {
  EXPECT_EQ(parent_folder("a/b/c.json"), "a/b");
  EXPECT_EQ(parent_folder("c.json"), ".");
  EXPECT_TRUE(file_exists(std::string(PLIMSOLL_SOURCE_DIR) + "/CMakeLists.txt"));
  EXPECT_FALSE(file_exists(PLIMSOLL_SOURCE_DIR));
}

}  // namespace
}  // namespace plimsoll
