// SPDX-License-Identifier: Apache-2.0
// Logs of tests/data/why and what plimsoll says about a text.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "answer/log_rules.h"
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

// A log with its label and the causes that are accepted beside it.
struct Labelled {
  std::string name;
  std::string cause;
  std::vector<std::string> also;
  std::string text;
  bool blind = false;  // not looked at while the diagnosis was written
};

inline std::vector<Labelled> wild() {
  std::vector<Labelled> cases;
  const document::Node root = document::parse_json(read_data(data_folder() / "wild/cases.json")).value();
  for (const document::Node& record : root.items) {
    Labelled one;
    one.name = record.find("id")->text;
    one.cause = record.find("class")->text;
    for (const document::Node& other : record.find("secondary_classes")->items) one.also.push_back(other.text);
    one.text = read_data(data_folder() / "wild" / (one.name + ".log"));
    one.blind = record.find("blind")->boolean;
    cases.push_back(std::move(one));
  }
  return cases;
}

inline bool divisible_hash(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash % 3 == 0;
}

inline std::vector<Labelled> wordings() {
  std::vector<Labelled> cases;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder() / "wordings")) files.push_back(entry);
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& path : files) {
    std::istringstream lines(read_data(path));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("#### ")) {
        cases.back().text += line + "\n";
        continue;
      }
      std::istringstream head(line.substr(5));
      Labelled one;
      std::string bar;
      head >> one.name >> bar >> one.cause;
      for (std::string other; head >> other;) one.also.push_back(other);
      one.blind = divisible_hash(one.name);
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

// Every labelled log, those beside the code included.
inline std::vector<Labelled> everything() {
  std::vector<Labelled> all = wild();
  for (Labelled& one : wordings()) all.push_back(std::move(one));
  for (const Case& one : corpus()) all.push_back({one.name, one.cause, one.secondary, one.text, false});
  for (const Case& one : failures()) all.push_back({one.name, one.cause, one.secondary, one.text, false});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_folder() / "stories"))
    if (entry.is_regular_file())
      all.push_back({entry.path().filename().string(),
                     entry.path().parent_path().filename().string(),
                     {},
                     read_data(entry.path()),
                     false});
  return all;
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
  Collector collector(answer::catalogue_texts);
  read_text(name, text, collector, limits);
  Answer answer;
  answer.findings = std::make_unique<Findings>(collector.take());
  answer.diagnosis = diagnose(*answer.findings);
  answer.fixes = fixes_for(answer.diagnosis, *answer.findings);
  return answer;
}

// What can have run out where a log has this label.
inline std::set<std::string> resources_of(const std::string& cause) {
  if (cause == "host-ram-kill") return {"host", "shm"};
  if (cause == "model-load-spike") return {"device", "host"};
  if (cause == "memory-leak") return {"device", "host"};
  if (cause == "unified-memory-limit") return {"device", "cap"};
  if (cause == "allocator-cap") return {"cap"};
  if (cause == "managed-memory") return {"device", "host"};
  if (cause == "pinned-host-memory") return {"pinned"};
  if (cause == "disk-full") return {"disk"};
  if (cause == "fd-limit") return {"descriptors"};
  if (cause == "unknown") return {"unknown", "none"};
  if (cause == "kv-cache-too-small" || cause == "object-store") return {"budget"};
  if (cause == "driver-allocation-limit") return {"driver limit"};
  if (cause == "not-memory" || cause == "config-conflict" || cause == "expandable-segments-interop" || cause == "clean")
    return {"none"};
  return {"device"};
}

inline std::string resource_word(const Answer& answer) { return std::string{resource_name(answer.diagnosis.resource)}; }

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
