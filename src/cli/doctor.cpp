// SPDX-License-Identifier: Apache-2.0
// plimsoll doctor: what this machine has, and which verbs would not work on it.
#include <fmt/format.h>

#include "cli/program.h"
#include "cli/table.h"
#include "live/doctor.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> run_doctor(const Arguments& arguments, const Console& console) {
  live::CheckupOptions options;
  options.python = arguments.value("python").value_or(options.python);
  const live::Checkup checkup = live::examine(options);
  if (arguments.has("json")) {
    console.print(live::to_json(checkup));
  } else {
    Table table({{"what"}, {"found", Align::kLeft, true}, {"what follows", Align::kLeft, true}});
    table.add_row({"plimsoll", fmt::format("{}, sources {}", version(), sources()), ""});
    for (const live::Finding& finding : checkup.findings)
      table.add_row({finding.what, finding.found,
                     Cell{finding.means, finding.health == live::Health::kGood ? Style::kPlain : Style::kWarning}});
    console.print(table.to_text(console.width, console.colour_out));
  }
  return checkup.sound() ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

extern const Verb kDoctor;
const Verb kDoctor = {
    .name = "doctor",
    .summary = "what this machine has, and what would not work on it",
    .operands = "",
    .most_operands = 0,
    .details =
        "Looks at the machine, its memory, limits and shared memory, the NVIDIA driver and its GPUs with their names "
        "in the catalogue, and the Python and PyTorch that capture, prove and the hook of run would use. Nothing is "
        "changed and nothing is sent anywhere. Predictions need none of it.",
    .flags = {{.name = "python", .argument = "PROGRAM", .help = "the Python of your training; python3 if not given"}},
    .takes_keys = false,
    .examples = {{"plimsoll doctor", "what is there"},
                 {"plimsoll doctor --python venv/bin/python", "with the Python of a training"}},
    .run = run_doctor,
};

}  // namespace plimsoll::cli
