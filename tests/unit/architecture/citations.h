// SPDX-License-Identifier: Apache-2.0
// Citations of docs/facts in comments, and the pages that they lead to.
//
// A citation is "facts PAGE.md" with sections: numbers (4.1, 7b), letters (E), rules (R005) or, after a comma, the
// name of a heading. Sections are listed with commas and "and", ranges have "to" or "-". A page named right behind
// them continues the citation. A line break inside a comment counts as a space.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace plimsoll::citations {

namespace fs = std::filesystem;

struct Page {
  std::set<std::string> sections;  // as numbered: "4", "4.1", "7b", "E"; rules: "R005"
  std::set<std::string> names;     // headings in lower case, up to a colon or bracket
  std::vector<std::string> twice;  // numbers that stand at two headings
};

using Pages = std::map<std::string, Page>;  // by file name without ".md"

struct Problem {
  std::size_t line = 0;
  std::string what;
};

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Adds the headings of one Markdown text, those inside fenced blocks left out.
inline void add_headings(const std::string& text, Page& page) {
  static const std::regex kHeading(R"re(^#{2,6} +(?:(\d+(?:\.\d+)*[a-z]?|[A-Z])(?:\.|(?= )) *)?(.*)$)re");
  bool fenced = false;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("```")) fenced = !fenced;
    std::smatch match;
    if (fenced || !std::regex_match(line, match, kHeading)) continue;
    if (match[1].matched && !page.sections.insert(match[1]).second) page.twice.push_back(match[1]);
    std::string name = lower(match[2]);
    name = name.substr(0, name.find_first_of(":(["));
    while (!name.empty() && name.back() == ' ') name.pop_back();
    if (!name.empty()) page.names.insert(name);
  }
}

// Ids of [[rule]] tables; the catalogue is the only text of a rule.
inline void add_rules(const std::string& text, Page& page) {
  static const std::regex kId(R"re((?:^|\n)id = "([RS]\d+)")re");
  for (std::sregex_iterator it(text.begin(), text.end(), kId), end; it != end; ++it) page.sections.insert((*it)[1]);
}

// The pages of docs/facts. Sections of PAGE.md may stand in the files of the folder PAGE.
inline Pages read_pages(const fs::path& root) {
  Pages pages;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "docs/facts")) {
    if (entry.path().extension() != ".md" || entry.path().filename() == "README.md") continue;
    const fs::path relative = fs::relative(entry.path(), root / "docs/facts");
    add_headings(read_text(entry.path()), pages[relative.begin()->stem().string()]);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "catalog"))
    if (entry.path().extension() == ".toml") add_rules(read_text(entry.path()), pages["rules"]);
  return pages;
}

// Follows the citations of one text.
class Reader {
 public:
  Reader(const Pages& pages, const std::string& text) : pages_(pages) { flatten(text); }

  std::vector<Problem> check() {
    static const std::regex kStart(R"re(\b[Ff]acts:? (?:([a-z0-9-]+)\.md\b|(?=\d|[a-z0-9-]+\.json\b)))re");
    for (std::sregex_iterator it(flat_.begin(), flat_.end(), kStart), end; it != end; ++it) {
      const auto at = static_cast<std::size_t>(it->position());
      ++count_;
      if ((*it)[1].matched)
        follow((*it)[1], at, at + it->str().size());
      else
        problems_.push_back({lines_[at], "no page is named: '" + flat_.substr(at, 20) + "'"});
    }
    check_bare_pages();
    return problems_;
  }

  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  // Line breaks, indentation and the marks of comments become one space.
  void flatten(const std::string& text) {
    std::size_t line = 1;
    bool at_start = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\n') {
        ++line;
        at_start = true;
        put(' ', line - 1);
      } else if (at_start && (c == ' ' || c == '\t' || c == '/' || c == '#' || c == '*')) {
        continue;
      } else {
        at_start = false;
        put(c, line);
      }
    }
  }

  void put(char c, std::size_t line) {
    if (c == ' ' && !flat_.empty() && flat_.back() == ' ') return;
    flat_.push_back(c);
    lines_.push_back(line);
  }

  // The name of a page without the word before it: "rules.md R005".
  void check_bare_pages() {
    static const std::regex kPage(R"re(([a-z0-9-]+)\.md\b)re");
    for (std::sregex_iterator it(flat_.begin(), flat_.end(), kPage), end; it != end; ++it) {
      const auto at = static_cast<std::size_t>(it->position());
      const bool is_path = at > 0 && (flat_[at - 1] == '/' || is_word(flat_[at - 1]));
      if (is_path || followed_.contains(at) || !pages_.contains((*it)[1])) continue;
      ++count_;
      follow((*it)[1], at, at + it->str().size());
    }
  }

  void follow(const std::string& name, std::size_t at, std::size_t behind) {
    followed_.insert(behind - name.size() - 3);
    const auto page = pages_.find(name);
    if (page == pages_.end()) {
      problems_.push_back({lines_[at], "docs/facts has no page " + name + ".md"});
      return;
    }
    std::size_t end = read_sections(name, page->second, behind);
    static const std::regex kNext(R"re(^(?:[;,]| and|, and) ([a-z0-9-]+)\.md\b)re");
    std::smatch next;
    const std::string rest = flat_.substr(end, 80);
    if (!std::regex_search(rest, next, kNext)) return;
    end += next.str().size();
    if (followed_.contains(end - next[1].str().size() - 3)) return;
    ++count_;
    follow(next[1], end - 1, end);
  }

  // Answers the place behind the last section.
  std::size_t read_sections(const std::string& name, const Page& page, std::size_t at) {
    static const std::regex kSection(R"re(^((?:[RS]\d{3})|\d+(?:\.\d+)*[a-z]?|[A-Z])(?![A-Za-z0-9_%*/]))re");
    static const std::regex kBetween(R"re(^(?:, and |, | and | to |-|–))re");
    std::size_t end = at;
    for (bool first = true;; first = false) {
      std::size_t place = end;
      bool after_comma = false;
      if (first) {
        after_comma = flat_.compare(place, 2, ", ") == 0;
        if (!after_comma && flat_.compare(place, 1, " ") != 0) return end;
        place += after_comma ? 2 : 1;
      } else {
        std::smatch between;
        const std::string rest = flat_.substr(place, 8);
        if (!std::regex_search(rest, between, kBetween)) return end;
        place += between.str().size();
      }
      const std::string rest = flat_.substr(place, 80);
      std::smatch section;
      if (std::regex_search(rest, section, kSection)) {
        if (!page.sections.contains(section[1])) report(name, section[1], place);
        end = place + section.str().size();
        continue;
      }
      if (const std::optional<std::size_t> length = heading_at(page, rest)) {
        end = place + *length;
        continue;
      }
      const bool is_page = std::regex_search(rest, std::regex(R"re(^[a-z0-9-]+\.md\b)re"));
      if (after_comma && !is_page) report(name, rest.substr(0, rest.find_first_of(").;:,\"")), place);
      return end;
    }
  }

  // Length of the longest heading that the text begins with.
  static std::optional<std::size_t> heading_at(const Page& page, const std::string& text) {
    const std::string small = lower(text);
    std::optional<std::size_t> longest;
    for (const std::string& name : page.names)
      if (small.starts_with(name) && (small.size() == name.size() || !is_word(small[name.size()])))
        longest = std::max(longest.value_or(0), name.size());
    return longest;
  }

  void report(const std::string& page, const std::string& section, std::size_t at) {
    problems_.push_back({lines_[at], "docs/facts/" + page + ".md has no section '" + section + "'"});
  }

  const Pages& pages_;
  std::string flat_;
  std::vector<std::size_t> lines_;  // of every character of flat_
  std::set<std::size_t> followed_;  // where names of pages begin that were read
  std::size_t count_ = 0;
  std::vector<Problem> problems_;
};

}  // namespace plimsoll::citations
