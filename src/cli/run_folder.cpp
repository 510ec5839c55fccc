// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <algorithm>

#include <fmt/format.h>

#include "live/folder.h"

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

Result<std::string> snapshot_of(const std::string& folder) {
  const live::RunFiles files = live::files_of(folder);
  if (files.snapshots.empty())
    return bad_input(fmt::format("{} holds a run without a snapshot: no rank of it ran out of memory", folder),
                     "plimsoll score shows what it measured");
  return files.snapshots.front();
}

}  // namespace

Result<Arguments> with_run_folders(std::string_view verb, Arguments arguments) {
  if (verb != "why" && verb != "replay" && verb != "diff" && verb != "score") return arguments;
  std::vector<std::string> operands;
  for (const std::string& operand : arguments.operands) {
    if (operand == "-" || !live::is_run_folder(operand)) {
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

}  // namespace plimsoll::cli
