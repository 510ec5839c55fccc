// SPDX-License-Identifier: Apache-2.0
// Every rung of the ladder has its page, with an example that is computed, and every page is a rung.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lever/lever.h"

namespace plimsoll::lever {
namespace {

const std::filesystem::path kPages = PLIMSOLL_SOURCE_DIR "/docs/ladder";

TEST(Ladder, has_a_page_with_a_computed_example_for_every_rung) {
  std::set<std::string> rungs = {"README"};
  for (const Lever& lever : levers()) {
    rungs.insert(std::string(lever.id));
    std::ifstream page(kPages / (std::string(lever.id) + ".md"));
    ASSERT_TRUE(page) << lever.id;
    std::ostringstream text;
    text << page.rdbuf();
    EXPECT_THAT(text.str(), testing::HasSubstr("```console\n$ plimsoll ")) << lever.id;
  }
  for (const auto& entry : std::filesystem::directory_iterator(kPages))
    EXPECT_THAT(rungs, testing::Contains(entry.path().stem().string()));
}

}  // namespace
}  // namespace plimsoll::lever
