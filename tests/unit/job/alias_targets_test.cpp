// SPDX-License-Identifier: Apache-2.0
// Every table of names, of a framework or of a tool, leads to keys that exist. The tables stand in files of their own
// behind static functions, so their rows are read as they are written: a table that nobody lists is held to it as well.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "job/keys.h"

namespace plimsoll::job {
namespace {

namespace fs = std::filesystem;

TEST(AliasTargets, every_row_of_every_table_of_names_leads_to_a_key) {
  const std::regex row(R"re(\{"([^"]+)",\s*(?:AliasKind::)?k(?:Key|Inverse),\s*"([^"]*)")re");
  int rows = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PLIMSOLL_SOURCE_DIR) / "src/framework")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it, ++rows)
      EXPECT_TRUE(is_key((*it)[2].str())) << entry.path() << ": " << (*it)[1] << " leads to " << (*it)[2];
  }
  EXPECT_GT(rows, 100);  // the pattern still finds the tables
}

}  // namespace
}  // namespace plimsoll::job
