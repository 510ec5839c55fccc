// SPDX-License-Identifier: Apache-2.0
// plimsoll replay: is the simulator exact on this history; what if the settings were others; who holds memory.
#include <fmt/format.h>

#include "answer/chrome_trace.h"
#include "answer/replay.h"
#include "cli/output_file.h"
#include "cli/recording_flags.h"
#include "cli/replay_report.h"
#include "cli/stats_report.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

// What only a history can answer.
Status refuse_questions(const std::string& path, const Arguments& arguments) {
  for (const char* flag : {"set", "what-if", "tune", "peak", "leaks", "chrome-trace"})
    if (arguments.has(flag))
      return bad_input(fmt::format("{} has no history to replay: --{} cannot be answered", path, flag),
                       "record one with torch.cuda.memory._record_memory_history()");
  return {};
}

answer::ReplayQuestion question_of(const Arguments& arguments) {
  answer::ReplayQuestion question;
  if (arguments.has("set")) question.setting = answer::joined_settings(arguments.values("set"));
  question.limit_is_given = arguments.has("gpu") || arguments.has("capacity");
  question.what_if = arguments.has("what-if");
  question.tune = arguments.has("tune");
  question.peak = arguments.has("peak");
  question.leaks = arguments.has("leaks");
  return question;
}

Result<ExitCode> run_recording(const answer::Recording& recording, const Arguments& arguments, const Console& console) {
  if (!recording.history) PLIMSOLL_TRY_STATUS(refuse_questions(recording.path, arguments));
  PLIMSOLL_TRY(replay, answer::replay_recording(recording, question_of(arguments), to_person(console)));
  if (const auto path = arguments.value("chrome-trace"))
    PLIMSOLL_TRY_STATUS(answer::write_chrome_trace(*path, *recording.history, existing_files(arguments)));
  console.print(arguments.has("json") ? answer::to_json(replay)
                                      : fold_prose(replay_report(replay, console), console.prose_width));
  if (!recording.history) return ExitCode::kYes;
  for (const std::string& warning : replay.warnings) console.warn(warning);
  if (replay.what_ifs.empty()) console.next(fmt::format("plimsoll replay {} --what-if", recording.path));
  return replay.run.oom ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run_replay(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a snapshot is missing", "plimsoll replay SNAPSHOT");
  if (arguments.has("tune") && arguments.has("what-if")) return usage_error("--tune and --what-if exclude each other");
  const std::string& path = arguments.operands.front();
  PLIMSOLL_TRY(file, answer::read_recording_file(path, arguments.value("gpu").value_or("")));
  if (!file.snapshot) {
    PLIMSOLL_TRY_STATUS(refuse_questions(path, arguments));
    console.print(arguments.has("json") ? answer::to_json(file.counters) : stats_report(file.counters, console));
    return ExitCode::kYes;
  }
  PLIMSOLL_TRY(conditions, recording_conditions(arguments));
  PLIMSOLL_TRY(recording, answer::load_recording(path, std::move(file.snapshot), conditions));
  return run_recording(recording, arguments, console);
}

std::vector<Flag> flags_of_replay() {
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
        "memory_stats() and the text of memory_summary() are read as far as they go. A captured step (plimsoll "
        "capture) "
        "stands for the history that a GPU would have recorded of it.\n"
        "\n"
        "A snapshot says neither the device's capacity nor a memory fraction that was set through the API: --gpu, "
        "--capacity and --fraction do, and an out-of-memory event in the history bounds them.\n"
        "\n"
        "The folder of plimsoll run stands for its snapshot; a folder of many ranks for what each of them holds, as "
        "plimsoll map says it.\n"
        "\n"
        "Exit code 0 when memory suffices, 1 when it runs out.",
    .flags = flags_of_replay(),
    .takes_keys = false,
    .examples = {{"plimsoll replay snapshot.pickle", "is the replay exact, what is fragmented, what pins it"},
                 {"plimsoll replay snapshot.pickle --set expandable_segments:True", "would that have helped"},
                 {"plimsoll replay snapshot.pickle --what-if --gpu a100-sxm-80gb", "all usual settings on another GPU"},
                 {"plimsoll replay snapshot.pickle --peak --leaks", "who holds memory, what grows"}},
    .run = run_replay,
};

}  // namespace plimsoll::cli
