// SPDX-License-Identifier: Apache-2.0
// What a process can see of a written file; full disks, signals and readers are in tests/hostile.
#include "base/write.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <filesystem>

#include "base/file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class Write : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("plimsoll-write-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::recursive_directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

TEST_F(Write, a_new_file_holds_the_text_and_nothing_else_is_left) {
  ASSERT_TRUE(write_whole(at("a"), "text", Existing::kKeep));
  EXPECT_EQ(*read_file(at("a")), "text");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Write, an_existing_file_is_kept_or_replaced) {
  ASSERT_TRUE(write_whole(at("a"), "old", Existing::kKeep));
  const auto refused = write_whole(at("a"), "new", Existing::kKeep);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, "--force replaces it");
  EXPECT_EQ(*read_file(at("a")), "old");
  ASSERT_TRUE(write_whole(at("a"), "new", Existing::kReplace));
  EXPECT_EQ(*read_file(at("a")), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Write, several_files_are_all_written_or_none) {
  fs::create_directories(folder_ / "run/b");  // a folder where a file is wanted
  const std::vector<NewFile> files = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  EXPECT_FALSE(write_folder(at("run"), files, Existing::kReplace));
  EXPECT_FALSE(fs::exists(folder_ / "run/a"));
  fs::remove(folder_ / "run/b");
  ASSERT_TRUE(write_folder(at("run"), files, Existing::kReplace));
  EXPECT_EQ(*read_file(at("run/c")), "3");
}

TEST_F(Write, folders_that_nothing_came_of_are_taken_away) {
  EXPECT_FALSE(write_folder(at("x/y"), {{"no/such/folder", "1"}}, Existing::kKeep));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Write, a_stream_that_is_filled_is_a_whole_file) {
  ASSERT_TRUE(write_streamed(at("a"), [](std::FILE* out) { std::fputs("streamed", out); }, Existing::kKeep));
  EXPECT_EQ(*read_file(at("a")), "streamed");
}

}  // namespace
}  // namespace plimsoll
