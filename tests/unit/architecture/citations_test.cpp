// SPDX-License-Identifier: Apache-2.0
// Every citation of docs/facts leads to a page and a section that exist, and every page can be found.
#include "architecture/citations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <regex>

namespace plimsoll::citations {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

fs::path root() { return PLIMSOLL_SOURCE_DIR; }

// Texts of this project: what was recorded or drawn by a fuzzer is not ours, and this file makes citations up.
std::vector<fs::path> texts() {
  std::vector<fs::path> found;
  constexpr std::array kFolders = {"src", "catalog", "bench", "fuzz", "tests", "docs", "tools", "cmake"};
  for (const char* folder : kFolders)
    for (auto it = fs::recursive_directory_iterator(root() / folder); it != fs::recursive_directory_iterator(); ++it) {
      const fs::path relative = fs::relative(it->path(), root());
      const bool is_others =
          relative == "tests/data" || relative == "fuzz/corpus" || relative.filename() == "node_modules";
      if (is_others) it.disable_recursion_pending();
      if (it->is_regular_file() && relative.extension() != ".png" &&
          relative.filename().string().find("citations") == std::string::npos)
        found.push_back(relative);
    }
  for (const fs::directory_entry& entry : fs::directory_iterator(root()))
    if (entry.path().extension() == ".md") found.push_back(entry.path().filename());
  return found;
}

Pages made_up() {
  Pages pages;
  add_headings("# Title\n## 4. Layers\n### 4.1 Dense layer\n### 7b. Segments\n", pages["memory"]);
  add_headings("## E. Recompute\n## G. Graphs\n### Silent corrections\n", pages["rules"]);
  add_rules("[[rule]]\nid = \"R005\"\n", pages["rules"]);
  add_headings("## Keys and defaults when absent\n### Trap 8: multimodal files\n### Trap 1: heads\n", pages["models"]);
  return pages;
}

std::vector<std::string> problems(const std::string& text) {
  const Pages pages = made_up();
  std::vector<std::string> found;
  for (const Problem& problem : Reader(pages, text).check())
    found.push_back(std::to_string(problem.line) + ": " + problem.what);
  return found;
}

TEST(Citations, every_one_leads_to_a_section) {
  const Pages pages = read_pages(root());
  std::size_t count = 0;

  for (const fs::path& file : texts()) {
    Reader reader(pages, read_text(root() / file));
    for (const Problem& problem : reader.check())
      ADD_FAILURE() << file.string() << ":" << problem.line << ": " << problem.what;
    count += reader.count();
  }

  RecordProperty("citations", static_cast<int>(count));
  EXPECT_GT(count, 200U) << "the comments cite far more than that: are they still read?";
}

// Comments and messages name a rule by its id alone where the page is clear.
TEST(Citations, every_rule_that_is_named_is_in_the_catalogue) {
  const std::regex rule(R"re(\bR\d{3}\b)re");
  const Pages pages = read_pages(root());
  std::size_t count = 0;

  for (const fs::path& file : texts()) {
    if (*file.begin() != "src" && *file.begin() != "docs") continue;
    const std::string text = read_text(root() / file);
    for (std::sregex_iterator it(text.begin(), text.end(), rule), end; it != end; ++it, ++count)
      EXPECT_TRUE(pages.at("rules").sections.contains(it->str())) << file.string() << " names " << it->str();
  }

  EXPECT_GT(count, 300U);
}

TEST(Citations, a_section_stands_once) {
  for (const auto& [name, page] : read_pages(root())) EXPECT_THAT(page.twice, IsEmpty()) << name;
}

TEST(Citations, every_page_is_linked_from_the_one_above_it) {
  const fs::path facts = root() / "docs/facts";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(facts)) {
    const fs::path relative = fs::relative(entry.path(), facts);
    if (entry.path().extension() != ".md" || relative == "README.md") continue;
    const bool is_part = relative.has_parent_path();
    const fs::path above = is_part ? facts / (relative.parent_path().string() + ".md") : facts / "README.md";
    ASSERT_TRUE(fs::exists(above)) << above;
    EXPECT_THAT(read_text(above), HasSubstr("](" + relative.string() + ")")) << above;
  }
}

TEST(Citations, lists_ranges_names_and_rules_are_followed) {
  EXPECT_THAT(problems("// facts memory.md"), IsEmpty());
  EXPECT_THAT(problems("// as summed (facts memory.md 4.1, row 5), 12 of them"), IsEmpty());
  EXPECT_THAT(problems("// Facts memory.md 4, 4.1 and 7b: 20 MiB"), IsEmpty());
  EXPECT_THAT(problems("// facts memory.md 4-7b; rules.md E to G, R005"), IsEmpty());
  EXPECT_THAT(problems("// facts models.md, Keys and defaults when absent"), IsEmpty());
  EXPECT_THAT(problems("// facts models.md, trap 8. facts rules.md, silent corrections"), IsEmpty());
  EXPECT_THAT(problems("# what the facts say, 4 of 5"), IsEmpty());
}

TEST(Citations, a_page_that_does_not_exist_is_found) {
  EXPECT_THAT(problems("x\n// facts memroy.md 4"), ElementsAre("2: docs/facts has no page memroy.md"));
  EXPECT_THAT(problems("// facts memory.md 4; ruels.md R005"), ElementsAre("1: docs/facts has no page ruels.md"));
}

TEST(Citations, a_section_that_does_not_exist_is_found) {
  EXPECT_THAT(problems("// facts memory.md 4.2"), ElementsAre("1: docs/facts/memory.md has no section '4.2'"));
  EXPECT_THAT(problems("// facts memory.md 4 to 9"), ElementsAre("1: docs/facts/memory.md has no section '9'"));
  EXPECT_THAT(problems("// facts memory.md 4 and E"), ElementsAre("1: docs/facts/memory.md has no section 'E'"));
  EXPECT_THAT(problems("// rules.md R006"), ElementsAre("1: docs/facts/rules.md has no section 'R006'"));
  EXPECT_THAT(problems("// facts models.md, trap 80)"),
              ElementsAre("1: docs/facts/models.md has no section 'trap 80'"));
  EXPECT_THAT(problems("\"source\": \"facts memory.md 7\""), ElementsAre("1: docs/facts/memory.md has no section '7'"));
}

TEST(Citations, a_line_break_does_not_hide_one) {
  EXPECT_THAT(problems("// kept (facts\n  // memory.md 4,\n  // 4.3)."),
              ElementsAre("3: docs/facts/memory.md has no section '4.3'"));
}

TEST(Citations, a_number_or_a_data_file_is_no_page) {
  EXPECT_THAT(problems("\n// fp32 (facts 3.3)."), ElementsAre(HasSubstr("2: no page is named")));
  EXPECT_THAT(problems("// 450 GB/s (facts gpus.json)"), ElementsAre(HasSubstr("1: no page is named")));
}

TEST(Citations, headings_inside_fenced_blocks_are_no_sections) {
  Page page;
  add_headings("## 1. One\n```\n## 2. Two\n```\n## 1. Again\n", page);
  EXPECT_THAT(page.sections, ElementsAre("1"));
  EXPECT_THAT(page.twice, ElementsAre("1"));
}

}  // namespace
}  // namespace plimsoll::citations
