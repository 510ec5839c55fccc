// SPDX-License-Identifier: Apache-2.0
// plimsoll read: what was understood of these files, key by key, what was passed over, and what is missing.
#include "answer/read.h"
#include "cli/job_input.h"
#include "cli/read_report.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> run_read(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a file is missing", "plimsoll read train.yaml");
  PLIMSOLL_TRY(request, read_input(arguments));
  PLIMSOLL_TRY(understood, answer::understand(
                               request, arguments.has("all") ? answer::Defaults::kShown : answer::Defaults::kHidden));
  console.print(arguments.has("json") ? answer::to_json(understood) : read_report(understood, console));
  for (const std::string& note : understood.job.notes) console.note(note);
  for (const std::string& warning : understood.job.warnings) console.warn(warning);
  return understood.missing.empty() ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags_of_read() {
  std::vector<Flag> all = job_flags();
  all.push_back({.name = "all", .argument = "", .help = "also the keys that the framework decides"});
  return all;
}

}  // namespace

extern const Verb kRead;
const Verb kRead = {
    .name = "read",
    .summary = "what was understood of the files of a job, and what is missing",
    .operands = "FILE...",
    .most_operands = -1,
    .details =
        "Reads files as fit does and shows every key that they or flags set, with its value and where it came from; "
        "what was passed over, and what is not counted; what the framework would refuse; and what is missing before "
        "fit can answer. The first thing to run on a strange file.\n"
        "\n"
        "Exit code 0 when fit would have an answer, 1 when something is missing, 3 when a file cannot be read.",
    .flags = flags_of_read(),
    .takes_keys = true,
    .reads_ahead = true,
    .examples = {{"plimsoll read train.yaml", "what a configuration says"},
                 {"plimsoll read train.sh --script-args \"8B 16\"", "a script that takes arguments"}},
    .run = run_read,
};

}  // namespace plimsoll::cli
