// SPDX-License-Identifier: Apache-2.0
// A measurement and the job it was made with, read from the record files of the truth set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "document/node.h"
#include "job/job.h"

namespace plimsoll::truth {

struct Record {
  std::string id;
  std::string skip;  // not empty: why it is not scored
  job::Job job;
  std::int64_t pp_rank = 0;
  std::map<std::string, std::string> groups;   // "gpu" -> "H100", "recompute" -> "full", ...
  std::optional<std::int64_t> peak_allocated;  // bytes
  std::optional<std::int64_t> peak_reserved;
  std::optional<double> step_seconds;
  double host_speed = 1;   // of the machine that ran it, against the one that the built-in costs are of
  bool whole_job = false;  // step_seconds is of all ranks together, else of one rank whose peers answer at once
};

struct RecordFile {
  std::string path;
  std::vector<Record> records;
};

// Reads one file; its format is recognised by the fields of its records.
[[nodiscard]] Result<RecordFile> read_records(const std::string& path, std::string_view text);

// One per format.
[[nodiscard]] Record read_megatron_recording(const document::Node& node);
[[nodiscard]] Record read_torch_recording(const document::Node& node);
[[nodiscard]] Record read_trainer_recording(const document::Node& node);
[[nodiscard]] Record read_golden(const document::Node& node);
[[nodiscard]] Record read_published_throughput(const document::Node& node);
// run.json of `plimsoll run`, which holds its job once. The root must have a list "records".
[[nodiscard]] std::vector<Record> read_run(const document::Node& root);

// Field access that never fails: absent or of another type is the default.
[[nodiscard]] std::int64_t integer_or(const document::Node& node, std::string_view key, std::int64_t fallback);
[[nodiscard]] bool flag_of(const document::Node& node, std::string_view key);
[[nodiscard]] std::string text_of(const document::Node& node, std::string_view key);
// The table under a key, or an empty one.
[[nodiscard]] const document::Node& table_of(const document::Node& node, std::string_view key);

}  // namespace plimsoll::truth
