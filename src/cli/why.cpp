// SPDX-License-Identifier: Apache-2.0
// plimsoll why: what killed the run, the evidence, and what to change first.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "cli/log_rules.h"
#include "cli/output_file.h"
#include "cli/verb.h"
#include "cli/why_job.h"
#include "cli/why_json.h"
#include "cli/why_live.h"
#include "cli/why_snapshot.h"
#include "cli/why_text.h"
#include "cluster/cluster.h"
#include "why/read.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> check_process(const std::string& text, const Arguments& arguments, const Console& console) {
  std::int64_t pid = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || pid < 1)
    return usage_error(fmt::format("--pid is '{}'; wanted the number of a process", text));
  PLIMSOLL_TRY(process, read_process(pid));
  console.print(arguments.has("json") ? process_json(process) : process_report(process, console));
  return ExitCode::kYes;
}

Result<ExitCode> check_launch(const std::string& path, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(text, read_file(path));
  const std::vector<CheckedSetting> settings = check_script(text);
  console.print(arguments.has("json") ? script_json(path, settings) : script_report(path, settings, console));
  const bool problem =
      std::any_of(settings.begin(), settings.end(), [](const CheckedSetting& one) { return one.is_problem; });
  return problem ? ExitCode::kNo : ExitCode::kYes;
}

Result<why::Findings> read_all(const std::vector<std::string>& operands, const Console& console) {
  using Clock = std::chrono::steady_clock;
  PLIMSOLL_TRY(paths, why::log_files(operands));
  why::Collector collector(catalogue_texts);
  std::int64_t before = 0;
  auto reported = Clock::now();
  bool any = false;
  for (const std::string& path : paths) {
    std::int64_t here = 0;
    const auto progress = [&](std::int64_t bytes) {
      here = bytes;
      if (Clock::now() - reported < std::chrono::seconds{1}) return;
      reported = Clock::now();
      console.progress(fmt::format("read {}", format_bytes(before + bytes)));
    };
    PLIMSOLL_TRY_STATUS(why::read_log(path, collector, {}, progress));
    before += here;
  }
  why::Findings findings = collector.take();
  for (const why::LogFile& file : findings.files) any = any || file.bytes > 0;
  if (!any)
    return bad_input(paths.size() == 1 ? fmt::format("{} is empty", findings.files.front().name) : "all logs are empty",
                     "standard error often goes to another file");
  return findings;
}

Status write_repair(const std::string& path, const std::optional<KnownJob>& known, const std::vector<why::Fix>& fixes,
                    Existing existing, const Console& console) {
  if (!known) return usage_error("--fix needs the job; the log does not show enough of it", "give it: --job job.toml");
  PLIMSOLL_TRY(repair, repair_job(*known, fixes));
  if (path == "-")
    console.print("\n" + repair.text);
  else
    PLIMSOLL_TRY_STATUS(write_whole(path, repair.text, existing));
  std::string changes;
  for (const std::string& label : repair.applied) changes += (changes.empty() ? "" : ", ") + label;
  if (!repair.fits)
    console.warn(fmt::format("{}: {} are not enough; no further change of the ladder makes it fit", path, changes));
  console.progress(fmt::format("wrote {}: {}", path, changes));
  return {};
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.has("json") && arguments.value("fix").value_or("") == "-")
    return usage_error("--json and --fix - both write to standard output", "name a file: --fix repaired.toml");
  if (const auto pid = arguments.value("pid")) return check_process(*pid, arguments, console);
  if (const auto script = arguments.value("script")) return check_launch(*script, arguments, console);
  if (arguments.operands.empty())
    return usage_error("a log is missing; wanted files, folders or - for standard input", "plimsoll why run.log");
  if (std::count(arguments.operands.begin(), arguments.operands.end(), "-") > 1)
    return usage_error("standard input was named twice");
  if (const auto gpu = arguments.value("gpu")) {
    PLIMSOLL_TRY(found, cluster::find_gpu(*gpu));
    static_cast<void>(found);
  }
  PLIMSOLL_TRY(findings, read_all(arguments.operands, console));
  why::Diagnosis diagnosis = why::diagnose(findings);
  std::vector<why::Fix> fixes = why::fixes_for(diagnosis, findings);

  if (const auto snapshot = arguments.value("snapshot")) {
    PLIMSOLL_TRY(notes, snapshot_notes(*snapshot, diagnosis));
    diagnosis.notes.insert(diagnosis.notes.begin(), notes.begin(), notes.end());
  }
  std::optional<KnownJob> known;
  if (const std::vector<std::string> jobs = arguments.values("job"); !jobs.empty()) {
    PLIMSOLL_TRY(job, read_known_job(jobs, arguments));
    known = std::move(job);
  } else {
    Recovered recovered = recover_job(findings, diagnosis, arguments);
    known = std::move(recovered.job);
    if (!recovered.problem.empty()) diagnosis.notes.push_back(recovered.problem);
  }
  if (known) {
    price_fixes(*known, diagnosis, fixes);
    const memory::RankAnswer& worst = known->answer.ranks[known->answer.worst];
    diagnosis.notes.insert(diagnosis.notes.begin(),
                           fmt::format("plimsoll fit on {}: {} of {} on the worst rank, {}", known->origin,
                                       format_bytes(worst.device_used), format_bytes(worst.capacity),
                                       known->answer.fits ? "which should fit: the run used more than the job says"
                                                          : "which does not fit"));
  }

  console.print(arguments.has("json") ? why_json(diagnosis, findings, fixes)
                                      : why_text(diagnosis, findings, fixes, arguments.has("full"), console));
  if (const auto path = arguments.value("fix"))
    PLIMSOLL_TRY_STATUS(write_repair(*path, known, fixes, existing_files(arguments), console));
  const bool found = diagnosis.cause != why::Cause::kNotMemory && diagnosis.cause != why::Cause::kUnknown;
  return found ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags() {
  return {
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
        "An answer below 80 % is a ranking; the command or line that would decide it is named.\n"
        "\n"
        "Exit code 0 when a cause was found, 1 when it is not a memory problem, nothing failed, or the log does not "
        "say.",
    .flags = flags(),
    .examples = {{"plimsoll why run.log", "the cause, the evidence, the fixes"},
                 {"plimsoll why logs/ --full", "all ranks' logs of a folder, with everything"},
                 {"plimsoll why run.log --job job.toml --fix fixed.toml",
                  "priced on the job, and the repaired job written"},
                 {"plimsoll why --script job.sbatch", "does the script export what it should"}},
    .run = run,
};

}  // namespace plimsoll::cli
