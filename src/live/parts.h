// SPDX-License-Identifier: Apache-2.0
// What the ranks of a large run hold, from a folder of their snapshots, rank files or logs. The work splits: a part
// reads its share of the files, and parts join in any order into the same bytes as if one had read them all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/compare.h"

namespace plimsoll::live {

struct RankFacts {
  std::int64_t index = 0;  // of the file in the folder's sorted list
  std::string file;
  std::string problem;  // why it could not be read; the rest is empty then
  std::int64_t rank = 0;
  std::string host;
  std::optional<std::int64_t> stage;   // of the pipeline, and among the ranks that share a layer's experts, where the
  std::optional<std::int64_t> expert;  // folder holds the job of the run
  std::int64_t allocated = 0;          // bytes: peak of a rank file, held at the end in a snapshot
  std::int64_t reserved = 0;
  std::int64_t steps = 0;
  double seconds = 0;
  std::string ran_out;  // phase in which memory ran out; "" where it did not
  std::int64_t requested = 0;
  // Of a rank file:
  std::int64_t restart = 0;  // of all ranks by the launcher, before this start
  bool ended = false;        // the process came to its end by itself
  std::string error_type;
  std::string error;
  double error_time = 0;  // seconds since 1970
  // Of a log:
  bool is_log = false;
  std::string cause;     // of a log that shows a failure, as plimsoll why names it
  std::string phase;     // in which it failed
  bool is_echo = false;  // it only reports that another rank was lost
};

struct Part {
  std::string names;            // digest of the sorted list of files: parts of two folders do not mix
  std::int64_t files = 0;       // of the whole folder
  std::vector<RankFacts> rows;  // by index

  [[nodiscard]] bool is_whole() const { return static_cast<std::int64_t>(rows.size()) == files; }
};

struct Share {
  std::int64_t part = 1;
  std::int64_t of = 1;
};
// "3/16"
[[nodiscard]] Result<Share> parse_share(const std::string& text);

// Rank files, or snapshots where there are more of those; logs where there are neither. Files are shared out one by
// one, so that parts take alike; threads share a part.
[[nodiscard]] Result<Part> read_part(const std::string& folder, const Share& share);
[[nodiscard]] Result<Part> join(const std::vector<Part>& parts);

[[nodiscard]] std::string part_json(const Part& part);
[[nodiscard]] Result<Part> read_part_file(const std::string& path);

// Rows that groups and outliers are found in (groups.h), one per rank: its standard output and its errors may be two
// logs. Files that could not be read are left out, and logs that show no memory.
[[nodiscard]] std::vector<RankComparison> rows_of(const Part& part);

// Of the last start where the launcher started all ranks again: what earlier ones held is history.
[[nodiscard]] std::int64_t last_restart(const Part& part);

// Who failed first or vanished, and what ended earlier starts, in sentences (fates.h).
[[nodiscard]] std::vector<std::string> fates_of(const Part& part);

// Ranks of one host, stage or share of the experts that hold more than all ranks do on average.
struct Imbalance {
  std::string kind;     // "host", "stage", "expert rank"
  std::string name;     // of the fullest: "node37", "0"
  double held = 0;      // bytes reserved by a rank of it, on average
  double above = 0;     // share above the mean of all: 0.1 is 10 %
  std::int64_t of = 0;  // how many there are of the kind
};
// Those of more than two percent, only where every rank says where it belongs.
[[nodiscard]] std::vector<Imbalance> imbalances(const Part& part);

// "rank-3.jsonl: why" of every file that could not be read.
[[nodiscard]] std::vector<std::string> not_read(const Part& part);
// An error where it has files and none of them could be read.
[[nodiscard]] Status check_some_read(const Part& part);

// How many ranks a folder has snapshots or files of; logs do not count.
[[nodiscard]] std::size_t count_rank_files(const std::string& folder);

// Whether read_part finds anything to read in it.
[[nodiscard]] bool holds_ranks(const std::string& folder);

}  // namespace plimsoll::live
