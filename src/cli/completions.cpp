// SPDX-License-Identifier: Apache-2.0
// plimsoll complete: what could stand where the cursor is, and the scripts by which shells ask that.
#include <fmt/format.h>

#include "cli/complete.h"
#include "cli/program.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> run_complete(const Arguments& arguments, const Console& console) {
  if (const auto shell = arguments.value("script")) {
    console.print(completion_script(*shell));
    return ExitCode::kYes;
  }
  const Completions found = complete(verbs(), arguments.operands);
  std::string text;
  for (const Completion& one : found.words)
    text += one.says.empty() ? one.text + '\n' : one.text + '\t' + one.says + '\n';
  if (found.files) text += ":files\n";
  console.print(text);
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kComplete;
const Verb kComplete = {
    .name = "complete",
    .summary = "complete a command line; --script SHELL prints what a shell needs for it",
    .operands = "[-- WORD...]",
    .most_operands = -1,
    .details =
        "Prints what could stand in place of the last WORD: verbs, flags, keys and their values, models, GPUs, each "
        "with a few words after a tab; :files where names of files could stand there, too. The scripts of --script ask "
        "this program at every press of the tab key, so they know every flag that it has.",
    .flags = {{.name = "script",
               .argument = "SHELL",
               .help = "the script of bash, zsh or fish instead",
               .choices = "bash, zsh, fish"}},
    .takes_keys = false,
    .examples = {{"source <(plimsoll complete --script bash)", "completion in this shell"},
                 {"plimsoll complete -- fit --gpu h1", "the GPUs that begin so"}},
    .run = run_complete,
};

}  // namespace plimsoll::cli
