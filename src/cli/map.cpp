// SPDX-License-Identifier: Apache-2.0
// plimsoll map: what the ranks of a folder hold, or one part of that; plimsoll merge: parts joined.
#include <fmt/format.h>

#include "base/folder.h"
#include "base/usage.h"
#include "base/write.h"
#include "cli/output_file.h"
#include "cli/ranks_report.h"
#include "cli/verb.h"
#include "live/parts.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> answer_with(const live::Part& part, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY_STATUS(live::check_some_read(part));
  const std::string json = live::part_json(part);
  if (const auto out = arguments.value("out")) {
    PLIMSOLL_TRY_STATUS(write_whole(*out, json, existing_files(arguments)));
    if (!arguments.has("json")) {
      console.note(fmt::format("{} of {} files in {}", part.rows.size(), part.files, *out));
      return ExitCode::kYes;
    }
  }
  console.print(arguments.has("json") ? json : ranks_report(part, console));
  return ExitCode::kYes;
}

Result<ExitCode> run_map(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty())
    return usage_error("a folder is missing", "plimsoll map FOLDER --part 1/16 --out FILE");
  live::Share share;
  if (const auto text = arguments.value("part")) {
    PLIMSOLL_TRY(parsed, live::parse_share(*text));
    share = parsed;
  }
  PLIMSOLL_TRY(part, live::read_part(arguments.operands.front(), share));
  return answer_with(part, arguments, console);
}

// A folder stands for the .json files in it.
std::vector<std::string> with_parts_of_folders(const std::vector<std::string>& operands) {
  std::vector<std::string> paths;
  for (const std::string& operand : operands) {
    const std::size_t before = paths.size();
    for (const std::string& name : names_in(operand))
      if (name.ends_with(".json")) paths.push_back(operand + "/" + name);
    if (paths.size() == before) paths.push_back(operand);
  }
  return paths;
}

Result<ExitCode> run_merge(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("parts are missing", "plimsoll merge part-*.json");
  std::vector<live::Part> parts;
  for (const std::string& path : with_parts_of_folders(arguments.operands)) {
    PLIMSOLL_TRY(part, live::read_part_file(path));
    parts.push_back(std::move(part));
  }
  PLIMSOLL_TRY(whole, live::join(parts));
  PLIMSOLL_TRY(code, answer_with(whole, arguments, console));
  if (!whole.is_whole())
    console.warn(fmt::format("{} of {} files are in these parts; others are missing", whole.rows.size(), whole.files));
  return whole.is_whole() ? code : ExitCode::kNo;
}

std::vector<Flag> output_flags() {
  return {{.name = "out", .argument = "FILE", .help = "write it as a part, for plimsoll merge"},
          {.name = "force", .argument = "", .help = kForceHelp}};
}

std::vector<Flag> map_flags() {
  std::vector<Flag> all = {{.name = "part", .argument = "I/N", .help = "read only the I-th of N shares of the files"}};
  for (const Flag& flag : output_flags()) all.push_back(flag);
  return all;
}

}  // namespace

extern const Verb kMap;
const Verb kMap = {
    .name = "map",
    .summary = "what thousands of ranks hold or died of, from their snapshots, rank files or logs, in parts",
    .operands = "FOLDER",
    .most_operands = 1,
    .details =
        "Reads every snapshot of a folder (*.pickle, plain or compressed), or the rank files of plimsoll run, and "
        "groups the ranks by what they hold; those that stand out among their peers have a row of their own. A folder "
        "that has neither is read as logs, at any depth: what each rank died of by its own log, and what it held where "
        "the log says so. What killed the whole run is plimsoll why's question.\n"
        "\n"
        "--part I/N reads one of N shares and --out writes it, so that a job array does the work on many nodes; "
        "plimsoll "
        "merge joins the parts, in any order, into the same bytes as one reader would have made. examples/slurm has "
        "the "
        "scripts.",
    .flags = map_flags(),
    .examples = {{"plimsoll map snapshots/", "all ranks, here"},
                 {"plimsoll map logs/", "which rank died of what"},
                 {"plimsoll map snapshots/ --part 3/16 --out part-3.json", "a sixteenth of them"},
                 {"plimsoll merge part-*.json", "all sixteen together"}},
    .run = run_map,
};

extern const Verb kMerge;
const Verb kMerge = {
    .name = "merge",
    .summary = "join the parts that plimsoll map wrote",
    .operands = "PART...",
    .most_operands = -1,
    .details =
        "Parts of one folder in any order, some of them twice: the same bytes come out. Parts may be joined in steps "
        "(--out). Parts of different folders are refused.\n"
        "\n"
        "Exit code 0 when all files of the folder are in it, 1 when some are missing.",
    .flags = output_flags(),
    .examples = {{"plimsoll merge part-*.json", "the table"},
                 {"plimsoll merge a.json b.json --out ab.json", "in steps"}},
    .run = run_merge,
};

}  // namespace plimsoll::cli
