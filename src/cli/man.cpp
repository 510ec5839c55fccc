// SPDX-License-Identifier: Apache-2.0
// plimsoll man: the pages of man(1), of the program or of a verb, or all of them into a folder.
#include <algorithm>

#include <fmt/format.h>

#include "base/suggest.h"
#include "base/text.h"
#include "base/write.h"
#include "cli/manual.h"
#include "cli/output_file.h"
#include "cli/program.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> write_all(const std::string& folder, Existing existing) {
  std::vector<NewFile> files = {{"plimsoll.1", manual_of_program(verbs(), version()), false}};
  for (const Verb* verb : verbs())
    files.push_back({fmt::format("plimsoll-{}.1", verb->name), manual_of_verb(*verb, version()), false});
  PLIMSOLL_TRY_STATUS(write_folder(folder, files, existing));
  return ExitCode::kYes;
}

Result<ExitCode> run_man(const Arguments& arguments, const Console& console) {
  if (const auto folder = arguments.value("into")) return write_all(*folder, existing_files(arguments));
  if (arguments.operands.empty()) {
    console.print(manual_of_program(verbs(), version()));
    return ExitCode::kYes;
  }
  std::vector<std::string> names;
  for (const Verb* verb : verbs()) {
    names.emplace_back(verb->name);
    if (verb->name != arguments.operand()) continue;
    console.print(manual_of_verb(*verb, version()));
    return ExitCode::kYes;
  }
  const std::string meant = did_you_mean(arguments.operand(), names);
  return usage_error(fmt::format("there is no verb '{}'", arguments.operand()),
                     meant.empty() ? "plimsoll help lists the verbs" : meant);
}

}  // namespace

extern const Verb kMan;
const Verb kMan = {
    .name = "man",
    .summary = "the manual page of the program or of a verb, for man(1)",
    .operands = "[VERB]",
    .most_operands = 1,
    .details =
        "Prints a page in the language of man(1), made from the same tables as --help: plimsoll man fit | man -l -. "
        "With --into all pages are written into a folder, for packages.",
    .flags = {{.name = "into", .argument = "FOLDER", .help = "write all pages into this folder instead"},
              {.name = "force", .argument = "", .help = kForceHelp}},
    .takes_keys = false,
    .examples = {{"plimsoll man fit | man -l -", "read the page of fit"},
                 {"plimsoll man --into share/man/man1", "all of them as files"}},
    .run = run_man,
};

}  // namespace plimsoll::cli
