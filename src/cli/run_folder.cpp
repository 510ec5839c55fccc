// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/usage.h"
#include "cli/diff_report.h"
#include "cli/ranks_report.h"
#include "cli/view_folder.h"
#include "live/folder.h"
#include "live/parts.h"

namespace plimsoll::cli {

namespace {

// Logs and the kernel's word; the job prices the fixes, the snapshot shows who held the device.
Status take_for_why(const std::string& folder, Arguments& arguments, std::vector<std::string>& operands) {
  const live::RunFiles files = live::files_of(folder);
  if (files.logs.empty())
    return bad_input(fmt::format("{} holds a run without a log", folder),
                     "it was started with --no-log, or is running");
  operands.insert(operands.end(), files.logs.begin(), files.logs.end());
  if (!arguments.has("job") && !files.job.empty()) arguments.flags.emplace_back("job", files.job);
  if (!arguments.has("snapshot") && !files.snapshots.empty())
    arguments.flags.emplace_back("snapshot", files.snapshots.front());
  return {};
}

bool is_folder_of_ranks(const std::string& operand) {
  std::error_code error;
  return operand != "-" && std::filesystem::is_directory(operand, error) && live::holds_ranks(operand);
}

Result<std::string> snapshot_of(const std::string& folder) {
  const live::RunFiles files = live::files_of(folder);
  if (files.snapshots.empty() && !live::is_run_folder(folder))
    return bad_input(fmt::format("{}: neither snapshots nor rank files in it", folder),
                     "wanted *.pickle of torch.cuda.memory._dump_snapshot(), or a folder of plimsoll run");
  if (files.snapshots.empty())
    return bad_input(fmt::format("{} holds a run without a snapshot: no rank of it ran out of memory", folder),
                     "plimsoll score shows what it measured");
  return files.snapshots.front();
}

}  // namespace

Result<Arguments> with_run_folders(std::string_view verb, Arguments arguments) {
  if (verb != "why" && verb != "replay" && verb != "diff" && verb != "score" && verb != "view") return arguments;
  std::vector<std::string> operands;
  for (const std::string& operand : arguments.operands) {
    std::error_code ignored;
    if (verb == "view" && std::filesystem::is_directory(operand, ignored)) {
      PLIMSOLL_TRY(files, files_to_view(operand));
      operands.insert(operands.end(), files.begin(), files.end());
      continue;
    }
    if (verb == "score" && std::filesystem::is_directory(operand, ignored) && !live::is_run_folder(operand)) {
      PLIMSOLL_TRY(records, live::records_in(operand));
      operands.insert(operands.end(), records.begin(), records.end());
    } else if (verb == "replay" && std::filesystem::is_directory(operand, ignored)) {
      PLIMSOLL_TRY(snapshot, snapshot_of(operand));
      operands.push_back(std::move(snapshot));
    } else if (operand == "-" || !live::is_run_folder(operand)) {
      operands.push_back(operand);
    } else if (verb == "why") {
      PLIMSOLL_TRY_STATUS(take_for_why(operand, arguments, operands));
    } else if (verb == "score") {
      const live::RunFiles files = live::files_of(operand);
      if (files.record.empty()) return bad_input(fmt::format("{}: the run has not ended: no run.json", operand));
      operands.push_back(files.record);
    } else {
      PLIMSOLL_TRY(snapshot, snapshot_of(operand));
      operands.push_back(std::move(snapshot));
    }
  }
  arguments.operands = std::move(operands);
  return arguments;
}

Result<std::optional<ExitCode>> answer_for_ranks(std::string_view verb, const Arguments& arguments,
                                                 const Console& console) {
  const std::vector<std::string>& operands = arguments.operands;
  if (verb == "replay" && operands.size() == 1 && is_folder_of_ranks(operands[0])) {
    // One snapshot is replayed; what many ranks hold is shown rank by rank.
    if (live::files_of(operands[0]).snapshots.size() == 1) return std::optional<ExitCode>{};
    PLIMSOLL_TRY(part, live::read_part(operands[0], {}));
    PLIMSOLL_TRY_STATUS(live::check_some_read(part));
    console.print(arguments.has("json") ? live::part_json(part) : ranks_report(part, console));
    return std::optional(ExitCode::kYes);
  }
  if (verb == "diff" && operands.size() == 2 && is_folder_of_ranks(operands[0]) && is_folder_of_ranks(operands[1])) {
    PLIMSOLL_TRY(a, live::read_part(operands[0], {}));
    PLIMSOLL_TRY(b, live::read_part(operands[1], {}));
    PLIMSOLL_TRY(limit, growth_limit(arguments));
    PLIMSOLL_TRY(diff, live::compare_parts(a, b));
    const bool within = diff.within(limit);
    console.print(arguments.has("json") ? live::to_json(diff, within) : ranks_diff_report(diff, console));
    return std::optional(within ? ExitCode::kYes : ExitCode::kNo);
  }
  return std::optional<ExitCode>{};
}

}  // namespace plimsoll::cli
