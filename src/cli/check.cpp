// SPDX-License-Identifier: Apache-2.0
// plimsoll check: the jobs of a repository, held to its limits.
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "answer/check.h"
#include "answer/check_base.h"
#include "answer/git_state.h"
#include "base/bytes.h"
#include "base/write.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr const char* kList = "plimsoll.toml";

std::string report(const answer::Check& check, const Console& console) {
  Table table({{"job"},
               {"device GiB", Align::kRight},
               {"free GiB", Align::kRight},
               {"step s", Align::kRight},
               {"memory %", Align::kRight},
               {"time %", Align::kRight},
               {"holds"}});
  std::string complaints;
  for (const answer::CheckedJob& job : check.jobs) {
    std::vector<Cell> cells = {job.name};
    if (job.fit) {
      const memory::RankAnswer& worst = job.fit->memory.ranks[job.fit->memory.worst];
      cells.emplace_back(format_gib(worst.device_used));
      cells.emplace_back(format_gib(worst.headroom));
      cells.emplace_back(fmt::format("{:.3f}", job.fit->time.seconds));
    } else {
      cells.insert(cells.end(), 3, Cell{""});
    }
    if (job.difference) {
      const auto before = static_cast<double>(job.difference->a.device_used);
      const auto after = static_cast<double>(job.difference->b.device_used);
      cells.emplace_back(fmt::format("{:+.1f}", 100 * (after / before - 1)));
      cells.emplace_back(fmt::format("{:+.1f}", 100 * job.difference->slower()));
    } else {
      cells.insert(cells.end(), 2, Cell{""});
    }
    const bool holds = job.complaints.empty();
    cells.emplace_back(holds ? "yes" : "no", holds ? Style::kGood : Style::kBad);
    table.add_row(std::move(cells));
    for (const answer::Complaint& complaint : job.complaints)
      complaints +=
          fmt::format("{}: {}: {}\n", paint(job.name, Style::kBold, console.colour_out), complaint.id, complaint.text);
  }
  std::string text = table.to_text(console.width, console.colour_out);
  if (!complaints.empty()) text += '\n' + complaints;
  return text;
}

Result<ExitCode> run_check(const Arguments& arguments, const Console& console) {
  const std::string path = arguments.operands.empty() ? kList : arguments.operand();
  PLIMSOLL_TRY(list, answer::read_check_list(path));
  std::optional<answer::GitState> state;
  std::string base;
  const std::string against = arguments.value("against").value_or("");
  if (std::filesystem::is_directory(against)) {
    base = answer::folder_in_checkout(against, list);
  } else if (!against.empty()) {
    const std::string reach = answer::reach_of(list);
    PLIMSOLL_TRY(unpacked, answer::GitState::unpack(reach, against));
    state = std::move(unpacked);
    base = answer::folder_in(state->folder(), reach, list);
  }
  PLIMSOLL_TRY(check, answer::check(list, base, against, to_person(console)));
  for (const std::string& word : check.learned) console.warn(word);
  const Existing existing = existing_files(arguments);
  if (const auto file = arguments.value("sarif"))
    PLIMSOLL_TRY_STATUS(write_whole(*file, answer::to_sarif(check, std::string(version())), existing));
  if (const auto file = arguments.value("junit"))
    PLIMSOLL_TRY_STATUS(write_whole(*file, answer::to_junit(check), existing));
  if (const auto file = arguments.value("markdown"))
    PLIMSOLL_TRY_STATUS(write_whole(*file, answer::to_markdown(check), existing));
  console.print(arguments.has("json") ? answer::to_json(check)
                                      : fold_prose(report(check, console), console.prose_width));
  return check.passes() ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

extern const Verb kCheck;
const Verb kCheck = {
    .name = "check",
    .summary = "hold the jobs of a repository to its limits, for continuous integration",
    .operands = "[FILE]",
    .most_operands = 1,
    .details =
        "Reads a list of jobs, plimsoll.toml if not given: [[job]] with files (relative to the list) or a model, gpu, "
        "gpus, framework, config and set = { KEY = VALUE }; and what each is held to, in the job or for all of them in "
        "[limits]: headroom = \"2GiB\" that stay free, surely = false where the interval may reach over the capacity, "
        "max_step_seconds, and against another state of the repository memory_growth = \"2%\" (or bytes) and "
        "time_growth = \"3%\".\n"
        "\n"
        "--against names that state: a folder with another checkout, or a revision, which git unpacks beside it for as "
        "long as it takes. A job is compared with the one that the list of that state calls the same. Every key that "
        "differs is priced, in memory and time, in the Markdown.\n"
        "\n"
        "Exit code 0 when all jobs hold, 1 when one does not.",
    .flags = {{.name = "against", .argument = "STATE", .help = "a revision of git, or a folder, to compare with"},
              {.name = "sarif", .argument = "FILE", .help = "also write SARIF, for code scanning"},
              {.name = "junit", .argument = "FILE", .help = "also write JUnit XML, for test reports"},
              {.name = "markdown", .argument = "FILE", .help = "also write Markdown, for a comment"},
              {.name = "force", .argument = "", .help = kForceHelp}},
    .takes_keys = false,
    .examples = {{"plimsoll check", "the jobs of plimsoll.toml"},
                 {"plimsoll check --against origin/main --markdown comment.md",
                  "what a change does to memory and time, as a comment"}},
    .run = run_check,
};

}  // namespace plimsoll::cli
