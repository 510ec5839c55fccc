// SPDX-License-Identifier: Apache-2.0
// The jobs of a repository, held to its limits: does each still fit, is none refused, has none grown or become slower
// against another state of the repository. For continuous integration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/diff.h"
#include "answer/fit.h"
#include "answer/progress.h"

namespace plimsoll::answer {

// What a job is held to. Growth is against the base; without a base it is not checked.
struct CheckLimits {
  std::optional<std::int64_t> headroom;  // bytes that stay free on the worst rank, at least
  bool surely = true;                    // the upper end of the interval has to fit, too
  std::optional<GrowthLimit> memory;     // of device memory
  std::optional<double> time;            // share of time more per token
  std::optional<double> max_step_seconds;
};

struct CheckedEntry {
  std::string name;
  Input input;  // files relative to the folder of the list
  CheckLimits limits;
};

struct CheckList {
  std::string path;    // plimsoll.toml
  std::string folder;  // it lies in
  std::string calibration;
  std::vector<CheckedEntry> entries;
};
[[nodiscard]] Result<CheckList> read_check_list(const std::string& path);
// The same of a text that has been read; the path is for messages and for the folder.
[[nodiscard]] Result<CheckList> parse_check_list(const std::string& path, std::string_view text);

struct Complaint {
  std::string id;    // "does-not-fit", "slower", ...; stable, for SARIF and for suppressions
  std::string text;  // one sentence with the figures
  std::string file;  // of the job that it is about, seen from the folder of the list
};

struct CheckedJob {
  std::string name;
  std::vector<std::string> files;
  std::optional<Fit> fit;             // nothing: it could not be read
  std::optional<JobDiff> difference;  // to the base, where the base has this job
  std::vector<Complaint> complaints;
};

struct Check {
  std::string list;
  std::string base;  // what it was compared with; "" for nothing
  std::vector<CheckedJob> jobs;
  std::vector<std::string> learned;  // what plimsoll learn changed in the answers, in words

  [[nodiscard]] bool passes() const;
};

// `base` is the folder of the list in another state of the repository, "" for none; `base_name` is how it is called.
[[nodiscard]] Result<Check> check(const CheckList& list, const std::string& base, const std::string& base_name,
                                  const Progress& progress = {});

[[nodiscard]] std::string to_json(const Check& check);
[[nodiscard]] std::string to_sarif(const Check& check, const std::string& version);
[[nodiscard]] std::string to_junit(const Check& check);
// No longer than a comment may be: what holds and is as it was is left out first.
[[nodiscard]] std::string to_markdown(const Check& check);

// Every kind of complaint with what it means.
struct ComplaintKind {
  const char* id;
  const char* means;
};
[[nodiscard]] const std::vector<ComplaintKind>& complaint_kinds();

}  // namespace plimsoll::answer
