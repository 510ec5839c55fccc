// SPDX-License-Identifier: Apache-2.0
// Holds the shape of src/: a module includes only modules that it may know, and files stay small and
// named alike. The arrows stand here and in src/CMakeLists.txt; a new one is a decision made twice.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

using Arrows = std::map<std::string, std::set<std::string>>;

// Module -> the modules that it knows directly; what those know, it may know too.
const Arrows& arrows() {
  static const Arrows kArrows = {
      {"base", {}},
      {"document", {"base"}},
      {"model", {"document"}},
      {"cluster", {"document"}},
      {"job", {"model", "cluster"}},
      {"rules", {"job"}},
      {"emit", {"job"}},
      {"step", {"job"}},
      {"allocator", {"base"}},
      {"snapshot", {"document"}},
      {"replay", {"snapshot", "allocator"}},
      {"why", {"base"}},
      {"framework", {"emit", "why"}},
      {"memory", {"step", "allocator"}},
      {"timing", {"step"}},
      {"measure", {"timing"}},
      {"lever", {"memory", "timing", "rules"}},
      {"plan", {"lever"}},
      {"inference", {"model", "cluster"}},
      {"rl", {"inference", "plan"}},
      {"truth", {"memory", "timing"}},
      {"capture", {"memory", "snapshot"}},
      {"answer", {"capture", "measure", "truth", "replay", "why", "emit", "rl"}},
      {"http", {"base"}},
      {"serve", {"answer", "http"}},
      {"live", {"answer", "http"}},
      {"cli", {"answer", "live", "serve"}},
      {"library", {"cli"}},
  };
  return kArrows;
}

// The list of frameworks is expanded by whoever asks them (its own test holds that it includes nothing).
const std::string kList = "framework/list.h";

// Every module that `module` may include, itself among them.
std::set<std::string> reach(const std::string& module) {
  std::set<std::string> reached = {module};
  for (const std::string& known : arrows().at(module)) reached.merge(reach(known));
  return reached;
}

fs::path source_folder() { return fs::path(PLIMSOLL_SOURCE_DIR) / "src"; }

struct Source {
  std::string module;
  std::string name;  // relative to src/
  std::vector<std::string> lines;
};

std::vector<Source> sources() {
  std::vector<Source> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_folder())) {
    if (!entry.is_regular_file()) continue;
    const fs::path relative = fs::relative(entry.path(), source_folder());
    if (!relative.has_parent_path()) continue;  // src/CMakeLists.txt belongs to no module
    Source source{relative.begin()->string(), relative.string(), {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) source.lines.push_back(line);
    found.push_back(std::move(source));
  }
  return found;
}

TEST(Architecture, every_module_includes_only_modules_it_may_know) {
  const std::regex include(R"re(^\s*#\s*include\s*"([^"/]+)/[^"]*".*)re");

  for (const Source& source : sources()) {
    ASSERT_TRUE(arrows().contains(source.module)) << source.name << " lies in a module that is not on the map";
    const std::set<std::string> allowed = reach(source.module);
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_match(line, match, include) || line.find(kList) != std::string::npos) continue;
      EXPECT_TRUE(allowed.contains(match[1]))
          << source.name << " includes " << match[1] << ", which it may not know: " << line;
    }
  }
}

// A skin parses and prints: what it knows comes from answers, and from the table of keys, which are its flags.
TEST(Architecture, the_command_line_includes_answers_and_nothing_behind_them) {
  const std::regex include(R"re(^\s*#\s*include\s*"(([^"/]+)/[^"]*)".*)re");
  const std::set<std::string> modules = {"base", "answer", "live", "serve", "cli"};
  const std::set<std::string> tables = {"job/keys.h", "job/read.h"};

  for (const Source& source : sources()) {
    if (source.module != "cli") continue;
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_match(line, match, include)) continue;
      EXPECT_TRUE(modules.contains(match[2]) || tables.contains(match[1])) << source.name << ": " << line;
    }
  }
}

// An arrow that nobody takes is a wish, or a leftover.
TEST(Architecture, every_arrow_is_taken) {
  const std::regex include(R"re(^\s*#\s*include\s*"([^"/]+)/[^"]*".*)re");
  Arrows taken;
  for (const Source& source : sources())
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (std::regex_match(line, match, include)) taken[source.module].insert(match[1]);
    }

  for (const auto& [module, known] : arrows())
    for (const std::string& other : known)
      EXPECT_TRUE(taken[module].contains(other))
          << module << " declares that it knows " << other << " and includes nothing of it";
}

TEST(Architecture, project_includes_name_their_module) {
  const std::regex bare(R"re(^\s*#\s*include\s*"[^"/]+".*)re");
  const std::regex upward(R"re(^\s*#\s*include\s*"[^"]*\.\./.*)re");

  for (const Source& source : sources())
    for (const std::string& line : source.lines) {
      EXPECT_FALSE(std::regex_match(line, bare)) << source.name << ": " << line;
      EXPECT_FALSE(std::regex_match(line, upward)) << source.name << ": " << line;
    }
}

TEST(Architecture, the_build_links_the_same_arrows) {
  const std::regex module(R"re(^plimsoll_module\((\w+)(?: LINKS((?: [\w:]+)*?))?(?: PRIVATE_LINKS.*)?\)$)re");
  const std::regex link(R"re(plimsoll_(\w+))re");
  Arrows built;

  std::ifstream file(source_folder() / "CMakeLists.txt");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, module)) continue;
    std::set<std::string>& known = built[match[1]];
    const std::string links = match[2];
    for (std::sregex_iterator it(links.begin(), links.end(), link), end; it != end; ++it) known.insert((*it)[1]);
  }

  EXPECT_EQ(built, arrows());
}

TEST(Architecture, file_names_are_snake_case_sources) {
  const std::regex name(R"re([a-z0-9]+(_[a-z0-9]+)*\.(h|cpp))re");

  for (const Source& source : sources())
    EXPECT_TRUE(std::regex_match(fs::path(source.name).filename().string(), name)) << source.name;
}

TEST(Architecture, every_source_opens_with_its_licence) {
  for (const Source& source : sources()) {
    ASSERT_FALSE(source.lines.empty()) << source.name;
    EXPECT_EQ(source.lines.front(), "// SPDX-License-Identifier: Apache-2.0") << source.name;
  }
}

TEST(Architecture, files_stay_small) {
  constexpr std::size_t kMostLines = 600;
  constexpr std::size_t kMostLinesOfMain = 60;

  for (const Source& source : sources()) {
    EXPECT_LE(source.lines.size(), kMostLines) << source.name << " asks for a split";
    if (source.name == "cli/main.cpp") {
      EXPECT_LE(source.lines.size(), kMostLinesOfMain) << "main only dispatches";
    }
  }
}

}  // namespace
