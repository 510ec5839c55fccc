// SPDX-License-Identifier: Apache-2.0
// Jobs for the tests of rules: base jobs with a few keys changed, read as a file would be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "document/node.h"
#include "job/read.h"
#include "rules/rules.h"

namespace plimsoll::rules {

inline std::string data_path(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/rules/" + name;
}

inline document::Node base_of(const Rule& rule, job::Framework framework) {
  const std::string name(job::name_of(framework));
  const std::string path = data_path(rule.base.empty() ? name + ".toml" : name + "-" + rule.base + ".toml");
  const auto text = read_file(path);
  PLIMSOLL_CHECK(text.has_value());
  auto root = document::parse_toml(*text);
  PLIMSOLL_CHECK(root.has_value());
  return *std::move(root);
}

inline void put(document::Node& table, const std::string& key, const document::Node& value) {
  std::erase_if(table.members, [&key](const auto& member) { return member.first == key; });
  const bool removes = value.is_string() && value.text == "(none)";
  if (!removes) table.members.emplace_back(key, value);
}

// The base with the example's keys instead of its own; "environment.NAME" is a variable, "(none)" no value.
inline std::string with_example(document::Node base, const Example& example) {
  constexpr std::string_view kEnvironment = "environment.";
  for (const auto& [key, value] : example) {
    if (!key.starts_with(kEnvironment)) {
      put(base, key, value);
      continue;
    }
    document::Node variables;
    variables.kind = document::Node::Kind::kObject;
    if (const document::Node* table = base.find("environment"); table != nullptr) variables = *table;
    put(variables, key.substr(kEnvironment.size()), value);
    put(base, "environment", variables);
  }
  return document::to_json(base);
}

struct ReadJob {
  job::Job job;
  std::vector<job::Problem> problems;
};

inline Result<ReadJob> read_all(const std::vector<job::InputFile>& files, job::ReadOptions options = {}) {
  ReadJob read;
  options.problems = &read.problems;
  PLIMSOLL_TRY(job, job::read_job(files, options));
  read.job = std::move(job);
  return read;
}

inline std::vector<std::string> violated_ids(const job::Job& job, bool errors_only = false) {
  std::vector<std::string> ids;
  for (const Violation& violation : check(job))
    if (!errors_only || violation.rule->severity == Severity::kError) ids.push_back(violation.rule->id);
  return ids;
}

}  // namespace plimsoll::rules
