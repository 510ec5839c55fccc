// SPDX-License-Identifier: Apache-2.0
#include "cli/view_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "answer/why.h"
#include "base/file.h"
#include "live/folder.h"
#include "live/groups.h"
#include "live/parts.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostFiles = 12;  // a page with more is a page that nobody reads

void add_once(std::vector<std::string>& files, const std::string& path) {
  if (std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
}

// The rank's snapshot: the file itself, or what lies beside the rank's file; "" where there is none.
std::string snapshot_of(const std::string& folder, const live::RankFacts& facts) {
  if (!facts.problem.empty()) return {};
  const std::string path = (std::filesystem::path(folder) / facts.file).string();
  constexpr std::string_view kRankFile = ".jsonl";
  if (!path.ends_with(kRankFile)) return path;
  for (const char* ending : {".oom.pickle", ".peer.pickle"})
    if (std::string beside = path.substr(0, path.size() - kRankFile.size()) + ending; file_exists(beside))
      return beside;
  return {};
}

// Groups come by what they hold; the fullest of all and those that stand out are shown before the rest.
Result<std::vector<std::string>> one_of_each_group(const std::string& folder) {
  PLIMSOLL_TRY(part, live::read_part(folder, {}));
  PLIMSOLL_TRY_STATUS(live::check_some_read(part));
  std::map<std::int64_t, std::string> by_rank;  // their snapshots
  for (const live::RankFacts& facts : part.rows)
    if (std::string path = snapshot_of(folder, facts); !path.empty()) by_rank[facts.rank] = std::move(path);
  const std::vector<live::RankComparison> rows = live::rows_of(part);
  std::vector<live::RankGroup> groups = live::group_rows(rows);
  const auto held = [&rows](const live::RankGroup& group) { return rows[group.fullest].reserved.measured.value_or(0); };
  std::stable_sort(groups.begin(), groups.end(), [&held](const live::RankGroup& a, const live::RankGroup& b) {
    return std::pair(a.is_outlier, held(a)) > std::pair(b.is_outlier, held(b));
  });
  std::vector<std::string> files;
  for (const live::RankGroup& group : groups) {
    if (files.size() == kMostFiles) break;
    // The fullest, or another that has one: not every rank of a run writes a snapshot.
    std::vector<std::size_t> members = {group.fullest};
    members.insert(members.end(), group.rows.begin(), group.rows.end());
    for (const std::size_t member : members)
      if (const auto found = by_rank.find(rows[member].rank); found != by_rank.end()) {
        files.push_back(found->second);
        break;
      }
  }
  return files;
}

Result<std::vector<std::string>> logs_of_diagnosis(const std::string& folder) {
  PLIMSOLL_TRY(found, answer::why({{folder}, {}, {}, {}}, {}));
  std::vector<std::string> files;
  for (const why::Evidence& evidence : found.diagnosis.evidence)
    if (files.size() < kMostFiles && !evidence.file.empty()) add_once(files, evidence.file);
  if (files.empty())
    return bad_input(fmt::format("{}: no log of it says why a run ended", folder), "name the files to show");
  return files;
}

}  // namespace

Result<std::vector<std::string>> files_to_view(const std::string& folder) {
  const live::RunFiles known = live::files_of(folder);
  std::vector<std::string> files;
  if (live::is_run_folder(folder)) {
    if (!known.job.empty()) files.push_back(known.job);
    files.insert(files.end(), known.logs.begin(), known.logs.end());
    if (known.snapshots.size() <= 1) {
      files.insert(files.end(), known.snapshots.begin(), known.snapshots.end());
      if (files.empty())
        return bad_input(fmt::format("{} holds a run without a job, a log or a snapshot", folder),
                         "plimsoll map shows what its ranks held");
      return files;
    }
  } else if (live::count_rank_files(folder) == 0) {
    return logs_of_diagnosis(folder);
  }
  PLIMSOLL_TRY(snapshots, one_of_each_group(folder));
  files.insert(files.end(), snapshots.begin(), snapshots.end());
  return files;
}

}  // namespace plimsoll::cli
