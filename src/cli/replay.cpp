// SPDX-License-Identifier: Apache-2.0
// plimsoll replay: is the simulator exact on this history; what if the settings were others; who holds memory.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/chrome_trace.h"
#include "cli/output_file.h"
#include "cli/replay_report.h"
#include "cli/stats_report.h"
#include "cli/verb.h"
#include "replay/advice.h"

namespace plimsoll::cli {

namespace {

void add_advice(std::vector<std::string>& warnings, const std::vector<std::string>& advice) {
  for (const std::string& text : advice)
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
}

// Several settings add up; "default" stands for none.
std::string setting_of(std::vector<std::string> given) {
  std::erase_if(given, [](const std::string& text) { return text.empty() || text == "default"; });
  return join(given, ",");
}

// Figures under other settings or limits. Limits that change nothing leave the exact replay's figures.
Status replay_otherwise(const Arguments& arguments, const Recording& recording, ReplayAnswer& answer) {
  const bool sets = arguments.has("set");
  if (!sets && !arguments.has("gpu") && !arguments.has("capacity")) return {};
  if (sets) answer.setting = setting_of(arguments.values("set"));
  PLIMSOLL_TRY(conditions, replay::conditions_of(answer.setting, recording.surroundings));
  if (!sets) conditions.settings = recording.recorded.settings;
  replay::Run run = replay::run(*recording.history, conditions);
  const allocator::Stats& before = recording.run.stats;
  const bool same = run.oom.has_value() == recording.run.oom.has_value() && run.stats.retries == before.retries &&
                    run.stats.peak_reserved == before.peak_reserved;
  answer.is_what_if = sets || !same;
  if (!answer.is_what_if && recording.exact.exact()) return {};
  const std::uint32_t op = run.oom ? run.oom->op : run.peak_reserved_op;
  answer.pinned = replay::find_pinned(replay::state_after(*recording.history, conditions, op), conditions.settings);
  answer.run = std::move(run);
  const bool limit_is_given = arguments.has("gpu") || arguments.has("capacity") || conditions.settings.fraction;
  answer.depends_on_limit = recording.inferred && !limit_is_given && !answer.run.oom &&
                            answer.run.stats.peak_reserved > recording.inferred->low;
  if (sets) add_advice(answer.warnings, replay::advise(conditions.settings, answer.largest_request));
  return {};
}

Status replay_many(const Arguments& arguments, const Recording& recording, const Console& console,
                   ReplayAnswer& answer) {
  if (arguments.has("tune")) {
    PLIMSOLL_TRY(tuned,
                 replay::tune(*recording.history, recording.surroundings, [&](std::size_t tried, std::size_t of) {
                   console.progress(of > 0 ? fmt::format("tried {} of {} settings", tried, of)
                                           : fmt::format("tried {} settings", tried));
                 }));
    answer.what_ifs = tuned.best;
    answer.tuned = std::move(tuned);
    return {};
  }
  if (!arguments.has("what-if")) return {};
  std::vector<std::string> settings = replay::sensible_settings(recording.surroundings);
  if (std::find(settings.begin(), settings.end(), recording.recorded.text) == settings.end())
    settings.push_back(recording.recorded.text);
  PLIMSOLL_TRY(answers, replay::replay_settings(*recording.history, settings, recording.surroundings));
  replay::rank(answers);
  answer.what_ifs = std::move(answers);
  return {};
}

// What only a history can answer.
Status refuse_questions(const std::string& path, const Arguments& arguments) {
  for (const char* flag : {"set", "what-if", "tune", "peak", "leaks", "chrome-trace"})
    if (arguments.has(flag))
      return bad_input(fmt::format("{} has no history to replay: --{} cannot be answered", path, flag),
                       "record one with torch.cuda.memory._record_memory_history()");
  return {};
}

Result<ExitCode> run_recording(const Recording& recording, const Arguments& arguments, const Console& console) {
  ReplayAnswer answer;
  answer.recording = &recording;
  answer.setting = recording.recorded.text;
  answer.run = recording.run;
  answer.warnings = recording.warnings;
  if (!recording.history) {
    PLIMSOLL_TRY_STATUS(refuse_questions(recording.path, arguments));
    if (recording.snapshot->segments.empty())
      return bad_input(fmt::format("{} holds neither a history nor segments", recording.path));
    answer.pinned = replay::find_pinned(recording.state_after(0), recording.recorded.settings);
    console.print(arguments.has("json") ? replay_json(answer) : replay_report(answer, console));
    return ExitCode::kYes;
  }
  answer.largest_request = replay::largest_request(*recording.history);
  // A fraction that the history shows is there, though the snapshot does not say it.
  allocator::Settings recorded = recording.recorded.settings;
  if (recording.inferred && recording.inferred->fraction && !recorded.fraction) recorded.fraction = 0.5;
  add_advice(answer.warnings, replay::advise(recorded, answer.largest_request));
  PLIMSOLL_TRY_STATUS(replay_otherwise(arguments, recording, answer));
  if (answer.pinned.reserved == 0)
    answer.pinned =
        replay::find_pinned(recording.state_after(answer.run.oom ? answer.run.oom->op : answer.run.peak_reserved_op),
                            recording.recorded.settings);
  add_advice(answer.warnings, replay::advise(answer.run));
  if (arguments.has("peak") || arguments.has("leaks")) {
    const replay::Attribution attribution(*recording.history);
    if (arguments.has("peak"))
      answer.peak = replay::report_peak(*recording.history, attribution, answer.run.peak_allocated_op);
    if (arguments.has("leaks")) answer.leaks = replay::find_leaks(*recording.history, attribution);
  }
  PLIMSOLL_TRY_STATUS(replay_many(arguments, recording, console, answer));
  if (const auto path = arguments.value("chrome-trace"))
    PLIMSOLL_TRY_STATUS(write_chrome_trace(*path, *recording.history, existing_files(arguments)));
  console.print(arguments.has("json") ? replay_json(answer) : replay_report(answer, console));
  for (const std::string& warning : answer.warnings) console.warn(warning);
  if (answer.what_ifs.empty()) console.next(fmt::format("plimsoll replay {} --what-if", recording.path));
  return answer.run.oom ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a snapshot is missing", "plimsoll replay SNAPSHOT");
  if (arguments.has("tune") && arguments.has("what-if")) return usage_error("--tune and --what-if exclude each other");
  const std::string& path = arguments.operands.front();
  PLIMSOLL_TRY(file, read_recording_file(path));
  if (!file.snapshot) {
    PLIMSOLL_TRY_STATUS(refuse_questions(path, arguments));
    console.print(arguments.has("json") ? stats_json(file.counters) : stats_report(file.counters, console));
    return ExitCode::kYes;
  }
  PLIMSOLL_TRY(recording, load_recording(path, std::move(file.snapshot), arguments));
  return run_recording(recording, arguments, console);
}

std::vector<Flag> flags() {
  std::vector<Flag> all = {
      {.name = "set",
       .argument = "SETTING",
       .help = "replay under this PYTORCH_CUDA_ALLOC_CONF instead (plimsoll keys --allocator); several add up",
       .repeats = true},
      {.name = "what-if", .argument = "", .help = "a table of the sensible settings, best first"},
      {.name = "tune", .argument = "", .help = "search the settings for the least reserved memory"},
      {.name = "peak", .argument = "", .help = "who holds memory at the peak: categories, modules, stacks"},
      {.name = "leaks", .argument = "", .help = "what grows from step to step"},
      {.name = "chrome-trace", .argument = "FILE", .help = "write the history for Perfetto"},
      {.name = "force", .argument = "", .help = kForceHelp},
  };
  all.insert(all.end(), recording_flags().begin(), recording_flags().end());
  return all;
}

}  // namespace

extern const Verb kReplay;
const Verb kReplay = {
    .name = "replay",
    .summary = "replay a recorded memory history, exactly or under other allocator settings",
    .operands = "SNAPSHOT",
    .most_operands = 1,
    .details =
        "Reads what torch.cuda.memory._dump_snapshot() wrote (plain, .gz or .zst; - is standard input), replays every "
        "event through a model of PyTorch's caching allocator and says how many came out as recorded: only then can "
        "its answers about other settings be trusted. A snapshot without a history is shown as it is; the JSON of "
        "memory_stats() and the text of memory_summary() are read as far as they go.\n"
        "\n"
        "A snapshot says neither the device's capacity nor a memory fraction that was set through the API: --gpu, "
        "--capacity and --fraction do, and an out-of-memory event in the history bounds them.\n"
        "\n"
        "Exit code 0 when memory suffices, 1 when it runs out.",
    .flags = flags(),
    .takes_keys = false,
    .examples = {{"plimsoll replay snapshot.pickle", "is the replay exact, what is fragmented, what pins it"},
                 {"plimsoll replay snapshot.pickle --set expandable_segments:True", "would that have helped"},
                 {"plimsoll replay snapshot.pickle --what-if --gpu a100-sxm-80gb", "all usual settings on another GPU"},
                 {"plimsoll replay snapshot.pickle --peak --leaks", "who holds memory, what grows"}},
    .run = run,
};

}  // namespace plimsoll::cli
