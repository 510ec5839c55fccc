// SPDX-License-Identifier: Apache-2.0
// Logs of tests/data/why and what plimsoll says about a text.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "document/node.h"
#include "why/diagnosis.h"
#include "why/fixes.h"
#include "why/read.h"

namespace plimsoll::why {

inline std::filesystem::path data_folder() { return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/why"; }

inline std::string read_data(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Case {
  std::string name;
  std::string cause;
  std::vector<std::string> secondary;
  std::string text;
  document::Node record;
};

inline std::vector<Case> corpus() {
  std::vector<Case> cases;
  const document::Node root = document::parse_json(read_data(data_folder() / "corpus/cases.json")).value();
  for (const document::Node& record : root.items) {
    Case one;
    one.name = record.find("id")->text;
    one.cause = record.find("class")->text;
    for (const document::Node& other : record.find("secondary_classes")->items) one.secondary.push_back(other.text);
    one.text = read_data(data_folder() / "corpus" / (one.name + ".log"));
    one.record = record;
    cases.push_back(std::move(one));
  }
  return cases;
}

inline std::vector<Case> failures() {
  std::vector<Case> cases;
  const document::Node root = document::parse_json(read_data(data_folder() / "failures/labels.json")).value();
  for (const document::Node& record : root.items) {
    Case one;
    one.name = record.find("file")->text;
    one.cause = record.find("class")->text;
    one.text = read_data(data_folder() / "failures" / one.name);
    cases.push_back(std::move(one));
  }
  return cases;
}

// A diagnosis with what it points into.
struct Answer {
  std::unique_ptr<Findings> findings;
  Diagnosis diagnosis;
  std::vector<Fix> fixes;

  [[nodiscard]] std::string cause() const { return std::string{cause_name(diagnosis.cause)}; }
  [[nodiscard]] std::string second() const {
    return diagnosis.candidates.size() > 1 ? std::string{cause_name(diagnosis.candidates[1].cause)} : std::string{};
  }
  [[nodiscard]] bool lists(std::string_view id) const {
    return std::any_of(fixes.begin(), fixes.end(), [&](const Fix& fix) { return fix.id == id; });
  }
  [[nodiscard]] std::string first_fix() const { return fixes.empty() ? std::string{} : fixes.front().id; }
};

inline Answer answer_for(std::string_view text, const ReadLimits& limits = {}, std::string_view name = "run.log") {
  Collector collector;
  read_text(name, text, collector, limits);
  Answer answer;
  answer.findings = std::make_unique<Findings>(collector.take());
  answer.diagnosis = diagnose(*answer.findings);
  answer.fixes = fixes_for(answer.diagnosis, *answer.findings);
  return answer;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      lines.push_back(std::move(line));
      line.clear();
    } else {
      line.push_back(c);
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace plimsoll::why
