// SPDX-License-Identifier: Apache-2.0
// plimsoll why: what killed the run, the evidence, and what to change first.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "answer/process.h"
#include "answer/slow.h"
#include "answer/why.h"
#include "base/file.h"
#include "cli/job_input.h"
#include "cli/output_file.h"
#include "cli/process_report.h"
#include "cli/slow_report.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "cli/why_text.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> check_process(const std::string& text, const Arguments& arguments, const Console& console) {
  std::int64_t pid = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || pid < 1)
    return usage_error(fmt::format("--pid is '{}'; wanted the number of a process", text));
  PLIMSOLL_TRY(process, answer::read_process(pid));
  console.print(arguments.has("json") ? answer::to_json(process) : process_report(process, console));
  return ExitCode::kYes;
}

Result<ExitCode> check_launch(const std::string& path, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(text, read_file(path));
  const answer::CheckedScript script{path, answer::check_script(text)};
  console.print(arguments.has("json") ? answer::to_json(script) : script_report(script, console));
  const bool problem = std::any_of(script.settings.begin(), script.settings.end(),
                                   [](const answer::CheckedSetting& one) { return one.is_problem; });
  return problem ? ExitCode::kNo : ExitCode::kYes;
}

Status write_repair(const std::string& path, const answer::Why& why, Existing existing, const Console& console) {
  if (!why.known)
    return usage_error("--fix needs the job; the log does not show enough of it", "give it: --job job.toml");
  PLIMSOLL_TRY(repair, answer::repair_job(*why.known, why.fixes));
  if (path == "-")
    console.print("\n" + repair.text);
  else
    PLIMSOLL_TRY_STATUS(write_whole(path, repair.text, existing));
  std::string changes;
  for (const std::string& label : repair.applied) changes += (changes.empty() ? "" : ", ") + label;
  if (!repair.fits)
    console.warn(fmt::format("{}: {} are not enough; no further change of the ladder makes it fit", path, changes));
  console.told(fmt::format("wrote {}: {}", path, changes));
  return {};
}

// why --slow LOG, or why --slow BEFORE AFTER.
Result<ExitCode> run_slow(const Arguments& arguments, const Console& console) {
  for (const char* flag : {"snapshot", "fix", "pid", "script", "full"})
    if (arguments.has(flag))
      return usage_error(fmt::format("--{} is about a run that died; --slow about one that ran", flag));
  if (arguments.operands.empty() || arguments.operands.size() > 2)
    return usage_error(fmt::format("--slow reads one log, or two to compare, found {}", arguments.operands.size()),
                       "plimsoll why --slow run.log --job job.toml; plimsoll why --slow before.log after.log");
  answer::SlowQuestion question{
      arguments.operands.back(), arguments.operands.size() == 2 ? arguments.operands[0] : "", {}};
  if (arguments.has("job")) {
    PLIMSOLL_TRY(input, input_of(arguments));
    input.operands = arguments.values("job");
    question.job = std::move(input);
  }
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(slow, answer::why_slow(question, world));
  if (slow.fit) say_learned(world, slow.fit->job, console);
  console.print(arguments.has("json") ? answer::to_json(slow)
                                      : fold_prose(slow_report(slow, console), console.prose_width));
  if (!slow.run.pace.damage.empty()) console.warn(fmt::format("{}: {}", slow.run.pace.file, slow.run.pace.damage));
  if (!question.job)
    console.next(fmt::format("plimsoll why --slow {} --job JOB compares with the prediction", question.log));
  return slow.is_slow() ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_why(const Arguments& arguments, const Console& console) {
  if (arguments.has("slow")) return run_slow(arguments, console);
  if (arguments.has("json") && arguments.value("fix").value_or("") == "-")
    return usage_error("--json and --fix - both write to standard output", "name a file: --fix repaired.toml");
  if (const auto pid = arguments.value("pid")) return check_process(*pid, arguments, console);
  if (const auto script = arguments.value("script")) return check_launch(*script, arguments, console);
  if (arguments.operands.empty())
    return usage_error("a log is missing; wanted files, folders or - for standard input", "plimsoll why run.log");
  answer::WhyQuestion question{
      arguments.operands, {}, arguments.value("snapshot").value_or(""), arguments.value("gpu").value_or("")};
  if (arguments.has("job")) {
    PLIMSOLL_TRY(input, input_of(arguments));
    input.operands = arguments.values("job");
    question.job = std::move(input);
  }
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(why, answer::why(question, world, to_person(console)));
  if (why.known) say_learned(world, why.known->job, console);
  console.print(arguments.has("json") ? answer::to_json(why) : why_text(why, arguments.has("full"), console));
  if (const auto path = arguments.value("fix"))
    PLIMSOLL_TRY_STATUS(write_repair(*path, why, existing_files(arguments), console));
  return why.found() ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags_of_why() {
  return {
      {.name = "slow",
       .argument = "",
       .help = "why a run is slow instead: one log, with --job against the prediction, or the logs of a faster and a "
               "slower run"},
      {.name = "full", .argument = "", .help = "all evidence, all runners-up, all fixes with their risks and sources"},
      {.name = "job",
       .argument = "FILE",
       .help = "the job that ran, to price the fixes on it; several make one job",
       .repeats = true},
      {.name = "snapshot",
       .argument = "FILE",
       .help = "a memory snapshot of the same run, to see its pieces and holders"},
      {.name = "gpu", .argument = "NAME", .help = "its GPU, where neither the log nor the job says"},
      {.name = "calibration", .argument = "FILE", .help = "of the prices: efficiencies measured on your own cluster"},
      {.name = "fix",
       .argument = "FILE",
       .help = "write the job with the cheapest change that makes it fit; - shows it"},
      {.name = "force", .argument = "", .help = kForceHelp},
      {.name = "pid", .argument = "N", .help = "check the settings and host memory of a live process instead"},
      {.name = "script", .argument = "FILE", .help = "check what a launch script exports instead"},
  };
}

}  // namespace

extern const Verb kWhy;
const Verb kWhy = {
    .name = "why",
    .summary = "what killed a run, the evidence, and what to change first",
    .operands = "[LOG...]",
    .most_operands = -1,
    .details =
        "Reads the logs of a run that died: files, folders or - for standard input, plain or gzip, with the lines of "
        "many ranks mixed. Names the cause with a probability, quotes the lines that show it, does the arithmetic of "
        "the out-of-memory message, and lists what can help, cheapest first, with the line to write for the framework "
        "that the log shows.\n"
        "\n"
        "Fixes are priced on the job when it is known: given with --job, or recovered from the arguments that "
        "Megatron prints. Otherwise bytes are ranges from the figures of the message.\n"
        "\n"
        "With --slow the log of a run that ran is read for the time of its steps (Megatron, Megatron-Bridge, the "
        "Transformers trainer, torchtitan, DeepSpeed, OpenMMLab, detectron2, MaxText, fairseq, ESPnet, Keras, verl, or "
        "figures that name their unit): against the prediction for "
        "--job, or against the log of another run; where it changed, what comes round again, stragglers and waits in "
        "the framework's timers, and lines that name a reason. Exit code 0 when something is slow, 1 when nothing is.\n"
        "\n"
        "An answer below 80 % is a ranking; the command or line that would decide it is named.\n"
        "\n"
        "Exit code 0 when a cause was found, 1 when it is not a memory problem, nothing failed, or the log does not "
        "say.",
    .flags = flags_of_why(),
    .examples = {{"plimsoll why run.log", "the cause, the evidence, the fixes"},
                 {"plimsoll why logs/ --full", "all ranks' logs of a folder, with everything"},
                 {"plimsoll why run.log --job job.toml --fix fixed.toml",
                  "priced on the job, and the repaired job written"},
                 {"plimsoll why --slow run.log --job job.toml",
                  "measured against predicted time, and what explains the gap"},
                 {"plimsoll why --script job.sbatch", "does the script export what it should"}},
    .run = run_why,
};

}  // namespace plimsoll::cli
