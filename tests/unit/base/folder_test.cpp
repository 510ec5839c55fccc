// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/write.h"

namespace plimsoll {
namespace {

TEST(Folder, names_are_sorted_and_without_the_folder_itself_and_its_parent) {
  const std::string folder = testing::TempDir() + "plimsoll-folder-test";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(write_folder(folder, {{"b", "1"}, {"a", "2"}, {".hidden", "3"}}, Existing::kKeep));
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".hidden", "a", "b"}));
  std::filesystem::remove_all(folder);
}

TEST(Folder, what_is_no_folder_holds_nothing) {
  EXPECT_TRUE(names_in("/no/such/folder").empty());
  EXPECT_TRUE(names_in("/dev/null").empty());
}

}  // namespace
}  // namespace plimsoll
