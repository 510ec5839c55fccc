// SPDX-License-Identifier: Apache-2.0
// plimsoll run: start the user's own command, measure it, compare with what was predicted, explain a failure.
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "base/write.h"
#include "cli/fit_time.h"
#include "cli/job_input.h"
#include "cli/program.h"
#include "cli/run_folder.h"
#include "cli/run_report.h"
#include "cli/verb.h"
#include "live/evidence.h"
#include "live/fates.h"
#include "live/folder.h"
#include "live/groups.h"
#include "live/retry.h"
#include "live/sampler.h"
#include "live/secrets.h"
#include "live/signals.h"

namespace plimsoll::cli {

extern const Verb kWhy;

namespace {

// What a shell answers for a command that is not there, or cannot be started.
constexpr int kNotFound = 127;
constexpr int kNotStarted = 126;

struct Asked {
  std::vector<std::string> words;
  std::string out;
  bool hook = true;
  bool log = true;
  live::HookOptions options;
  std::chrono::milliseconds every{500};
  int retries = 0;
};

Result<std::int64_t> whole_number(const Arguments& arguments, std::string_view flag, std::int64_t fallback,
                                  std::int64_t least) {
  const auto text = arguments.value(flag);
  if (!text) return fallback;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || number < least)
    return usage_error(fmt::format("--{} is '{}'; wanted a whole number, at least {}", flag, *text, least));
  return number;
}

Result<Asked> asked_of(const Arguments& arguments) {
  Asked asked;
  asked.words = arguments.operands;
  if (asked.words.empty())
    return usage_error("a command is missing", "plimsoll run --job job.toml -- torchrun --nproc-per-node 8 train.py");
  asked.out = arguments.value("out").value_or("");
  asked.hook = !arguments.has("no-hook");
  asked.log = !arguments.has("no-log");
  const std::string history = arguments.value("history").value_or("auto");
  if (history == "off")
    asked.options.history = live::History::kOff;
  else if (history == "stacks")
    asked.options.history = live::History::kStacks;
  else if (history == "events")
    asked.options.history = live::History::kEvents;
  PLIMSOLL_TRY(entries, whole_number(arguments, "entries", asked.options.entries, 1));
  asked.options.entries = entries;
  PLIMSOLL_TRY(every, whole_number(arguments, "every", 500, 10));
  asked.every = std::chrono::milliseconds(every);
  PLIMSOLL_TRY(retries, whole_number(arguments, "retry", 0, 0));
  if (retries > 20) return usage_error("--retry takes at most 20");
  asked.retries = static_cast<int>(retries);
  if (asked.retries == 0 && arguments.has("allow"))
    return usage_error("--allow is for changes that --retry makes", "--retry N");
  if (asked.retries > 0 && !arguments.has("job"))
    return usage_error("--retry needs the job, to know what a change would save", "--job FILE");
  return asked;
}

// For a warning, which has no line of its own for the hint.
std::string with_hint(const Error& error) { return to_string(error) + (error.hint.empty() ? "" : "; " + error.hint); }

// A job that cannot be read must not keep the command from running: it may have waited in a queue for a day.
std::optional<live::Prediction> predict(const Arguments& arguments, const Console& console) {
  const std::vector<std::string> files = arguments.values("job");
  if (files.empty() && !arguments.has("model")) return std::nullopt;
  const auto made = [&]() -> Result<live::Prediction> {
    try {
      PLIMSOLL_TRY(input, input_of(arguments));
      input.operands = files;
      PLIMSOLL_TRY(world, world_of(arguments));
      auto prediction = live::predict(std::move(input), world);
      if (prediction) say_learned(world, prediction->job, console);
      return prediction;
    } catch (const std::bad_alloc&) {
      return tl::make_unexpected(Error{Code::kMissing, "there is not enough memory for it", {}, {}});
    }
  }();
  if (!made) {
    console.warn(fmt::format("nothing can be predicted: {}", with_hint(made.error())));
    return std::nullopt;
  }
  const memory::RankAnswer& worst = made->price.worst();
  console.note(fmt::format("predicted {} of {} on the worst rank: {}; a step of {}", format_bytes(worst.device_used),
                           format_bytes(worst.capacity), made->price.fits() ? "fits" : "does not fit",
                           format_seconds(made->price.time.seconds)));
  return *made;
}

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void keep_file(const std::string& folder, const char* name, const std::string& text, live::Run& run) {
  if (folder.empty() || text.empty()) return;
  if (const Status written = write_whole(folder + "/" + name, text, Existing::kReplace); !written)
    run.problems.push_back(to_string(written.error()));
}

// What follows a command that has run, for days perhaps: without memory for it the report is lost, not the exit code.
template <class Work>
void sheltered(Work work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    std::fputs("plimsoll: there is not enough memory to say more about this run\n", stderr);
  }
}

// What kept the hook from all or some of its work, once for all ranks that say the same.
void add_hook_troubles(live::Run& run) {
  std::map<std::pair<bool, std::string>, std::vector<std::int64_t>> ranks;
  for (const live::RankRun& rank : run.ranks)
    if (!rank.trouble.empty()) ranks[{rank.gave_up, rank.trouble}].push_back(rank.rank);
  for (auto& [trouble, numbers] : ranks)
    run.problems.push_back(fmt::format("rank{} {}: the hook {}: {}", numbers.size() > 1 ? "s" : "",
                                       live::ranges(numbers), trouble.first ? "gave up" : "left something out",
                                       trouble.second));
}

// What is known once the command has ended: the ranks, against the prediction, written down.
void account(live::Run& run, const live::Sampler& sampler, const live::Prediction* prediction, bool has_log,
             double begun) {
  run.most = sampler.most();
  if (!sampler.trouble().empty()) run.problems.push_back(sampler.trouble());
  if (!run.ending.log_trouble.empty()) run.problems.push_back("the log is not complete: " + run.ending.log_trouble);
  if (!run.ending.started) return;
  if (!run.folder.empty()) run.ranks = live::take_last_start(live::read_ranks(run.folder, run.problems), run.earlier);
  if (!run.ranks.empty()) run.hook = "on";
  add_hook_troubles(run);
  run.rows = live::compare(run.ranks, prediction, run.most);
  run.differences = live::differences(run.rows, run.ranks, prediction);
  if (const std::string restarts = live::earlier_starts(run.earlier); !restarts.empty())
    run.differences.push_back(restarts);
  if (run.ending.code() != 0) {
    const bool interrupted = run.ending.signal == SIGINT || run.ending.signal == SIGTERM;
    if (!interrupted)
      for (std::string& said : live::fates(run.ranks)) run.differences.push_back(std::move(said));
    const std::vector<std::string> kernel = live::kernel_messages(begun);
    keep_file(run.folder, live::kStepsFile, live::steps_text(run.ranks), run);
    if (const std::string word = live::word_on_kill(run.ending, run.most, kernel); !word.empty())
      run.differences.push_back(word);
    keep_file(run.folder, live::kEvidenceFile, live::evidence_text({run.ending, run.most, run.ranks, kernel, has_log}),
              run);
  }
  keep_file(run.folder, live::kRunFile, live::run_json(run, prediction), run);
}

// One attempt: the command, measured, compared and written down.
live::Run attempt(const Asked& asked, const std::vector<std::string>& words,
                  std::vector<std::pair<std::string, std::string>> environment, const std::string& out,
                  const live::Prediction* prediction, live::Nvml* nvml, const std::string& nvml_problem) {
  live::Run run;
  run.version = std::string(version());
  run.command = live::without_secrets(words);
  run.started = live::utc_now();
  run.nvml = nvml_problem;
  if (auto folder = live::make_run_folder(out)) {
    run.folder = std::move(folder->path);
    if (folder->is_numbered)
      run.problems.push_back(fmt::format("{}: a run is in it already; this one is kept in {}", out, run.folder));
  } else {
    run.problems.push_back(fmt::format("nothing is kept: {}", to_string(folder.error())));
  }
  run.hook = !asked.hook ? "off" : run.folder.empty() ? "left out" : "not entered";
  if (asked.hook && !run.folder.empty()) {
    if (auto variables = live::install_hook(run.folder, asked.options)) {
      environment.insert(environment.end(), variables->begin(), variables->end());
    } else {
      run.hook = "left out";
      run.problems.push_back(fmt::format("the hook was left out: {}", to_string(variables.error())));
    }
  }
  if (prediction != nullptr) keep_file(run.folder, live::kJobFile, prediction->job_file, run);
  live::Sampler::Options sampling;
  if (!run.folder.empty()) sampling.file = run.folder + "/" + live::kSamplesFile;
  sampling.every = asked.every;
  live::Sampler sampler(nvml, sampling);
  live::Launch launch;
  launch.words = words;
  launch.environment = std::move(environment);
  if (asked.log && !run.folder.empty()) launch.log = run.folder + "/" + live::kLogFile;
  launch.started = [&sampler](std::int64_t pid) { sampler.start(pid); };
  const double begun = monotonic_seconds();
  run.ending = live::run_command(launch);
  sampler.stop();
  sheltered([&] {
    if (nvml != nullptr) run.nvml = nvml->problem();
    account(run, sampler, prediction, !launch.log.empty(), begun);
  });
  return run;
}

// The diagnosis of `why`, from everything that the folder holds.
void explain(const live::Run& run, const Arguments& arguments, const Console& console) {
  if (run.folder.empty()) return;
  Arguments question;
  question.operands = {run.folder};
  if (const auto gpu = arguments.value("gpu")) question.flags.emplace_back("gpu", *gpu);
  if (const auto calibration = arguments.value("calibration")) question.flags.emplace_back("calibration", *calibration);
  console.print("\n");
  const auto expanded = with_run_folders(kWhy.name, question);
  const auto answered =
      expanded ? kWhy.run(*expanded, console) : Result<ExitCode>{tl::make_unexpected(expanded.error())};
  if (!answered) console.note(fmt::format("why says nothing: {}", to_string(answered.error())));
}

ExitCode not_started(const std::vector<std::string>& words, int error, const Console& console) {
  console.error({Code::kMissing, fmt::format("{} cannot be started: {}", words.front(), std::strerror(error)), {}, {}});
  return static_cast<ExitCode>(error == ENOENT ? kNotFound : kNotStarted);
}

bool ran_out(const live::Run& run) {
  for (const live::RankRun& rank : run.ranks)
    if (rank.oom) return run.ending.code() != 0;
  return false;
}

// The cheapest change that should fit, after a run that ran out; nothing where there is none, which is said.
std::optional<live::Retry> retry_of(const live::Run& done, const live::Prediction& prediction,
                                    const Arguments& arguments, const std::vector<std::string>& words,
                                    const std::vector<std::string>& job_files, const Console& console) {
  const auto planned = [&]() -> Result<live::Retry> {
    PLIMSOLL_TRY(world, world_of(arguments));
    return live::plan_retry(done, prediction, world, words, job_files, arguments.values("allow"));
  }();
  if (planned) return *planned;
  console.warn(fmt::format("no retry: {}", with_hint(planned.error())));
  return std::nullopt;
}

void report(const live::Run& done, const live::Prediction* prediction, const Arguments& arguments,
            const Console& console) {
  if (console.quiet) return;
  const bool as_json = arguments.has("json");
  console.print(as_json ? live::run_json(done, prediction) : "\n" + run_report(done, prediction, console));
  const bool interrupted = done.ending.signal == SIGINT || done.ending.signal == SIGTERM;
  if (done.ending.code() != 0 && !interrupted && !as_json) explain(done, arguments, console);
}

Result<ExitCode> run_run(const Arguments& arguments, const Console& given) {
  PLIMSOLL_TRY(asked, asked_of(arguments));
  live::block_signals();
  // Standard output belongs to the command.
  Console console = given;
  console.out = given.err;
  console.colour_out = given.colour_err;
  std::optional<live::Prediction> prediction = predict(arguments, console);
  const auto nvml = live::Nvml::load();
  std::vector<std::string> words = asked.words;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string out = asked.out;
  std::string base;  // of the names of retries: the first folder
  std::vector<std::string> job_files = arguments.values("job");
  for (int left = asked.retries;; --left) {
    const live::Run done = attempt(asked, words, environment, out, prediction ? &*prediction : nullptr,
                                   nvml ? nvml->get() : nullptr, nvml ? std::string{} : to_string(nvml.error()));
    if (!done.ending.started) return not_started(words, done.ending.error, console);
    bool again = false;
    sheltered([&] {
      report(done, prediction ? &*prediction : nullptr, arguments, console);
      if (left == 0 || !prediction || !ran_out(done)) return;
      std::optional<live::Retry> next = retry_of(done, *prediction, arguments, words, job_files, console);
      if (!next) return;
      console.print("\n" + next->shown);
      if (base.empty()) base = done.folder.empty() ? asked.out : done.folder;
      out = base + fmt::format("-retry-{}", asked.retries - left + 1);
      words = std::move(next->words);
      job_files = std::move(next->job_files);
      environment = std::move(next->environment);
      prediction = std::move(next->prediction);
      again = true;
    });
    if (again) continue;
    if (done.ending.signal > 0) {
      static_cast<void>(console.flush());
      live::end_like(done.ending.signal);
    }
    return static_cast<ExitCode>(done.ending.code());
  }
}

std::vector<Flag> flags_of_run() {
  static const std::string numeric = join(live::numeric_levers(), ", ");
  static const std::string allow_help =
      "of --retry: this change of what is learned as well, where no other change does: " + numeric;
  std::vector<Flag> all = {
      {.name = "job",
       .argument = "FILE",
       .help = "the job that the command runs, to compare with; several make one job",
       .repeats = true},
      {.name = "out", .argument = "FOLDER", .help = "where everything is kept; plimsoll-run-DATE-TIME"},
      {.name = "retry",
       .argument = "N",
       .help = "after running out, start again with the cheapest change that should fit, at most N times"},
      {.name = "allow", .argument = "LEVER", .help = allow_help, .repeats = true, .choices = numeric},
      {.name = "history",
       .argument = "KIND",
       .help = "of the allocator, for the snapshot: off, events, stacks, which costs more, or auto: events unless "
               "allocations come so often that it would be felt; auto",
       .choices = "off, auto, events, stacks"},
      {.name = "entries", .argument = "N", .help = "events that the history keeps; 100000, about 20 MB"},
      {.name = "every", .argument = "MS", .help = "milliseconds between two samples of devices and host; 500"},
      {.name = "no-hook", .argument = "", .help = "nothing enters the command's processes: samples from outside only"},
      {.name = "no-log", .argument = "", .help = "the command gets our own streams; no copy is kept"},
      {.name = "calibration", .argument = "FILE", .help = "of the prediction: efficiencies measured on your cluster"},
  };
  for (const Flag& flag : job_flags())
    if (flag.name != "command") all.push_back(flag);
  return all;
}

}  // namespace

extern const Verb kRun;
const Verb kRun = {
    .name = "run",
    .summary = "run your own launch command, measure it, compare with the prediction",
    .operands = "-- COMMAND...",
    .most_operands = -1,
    .details =
        "Starts the command unchanged (torchrun, accelerate, deepspeed, python, srun) and stays out of its way: its "
        "output passes through byte for byte, signals reach it, and the exit code is its own. Meanwhile devices, host "
        "memory, the memory group's limit, /dev/shm and the page cache are sampled from outside, and a small hook "
        "enters every Python of the command through PYTHONPATH: where PyTorch is used, it writes torch's own counters "
        "and the seconds of each optimizer step, keeps the allocator's history in a ring, and writes a snapshot of "
        "the rank when an allocation fails. No counter is reset, no number changes, and a failure of the hook ends "
        "the hook, not the training.\n"
        "\n"
        "At the end standard error gets measured beside predicted for each rank; after a failure, what plimsoll why "
        "says to log, snapshot, job and the kernel's word. Everything is kept in one folder, which why, replay, diff "
        "and score take as an argument. Variables of the environment are not written down, but for settings of the "
        "allocator, CUDA and NCCL; values of the command line that look like passwords or tokens are left out.\n"
        "\n"
        "--retry starts again after a memory failure, with the cheapest change that leaves what is learned alone and "
        "that the prediction, corrected by this run, says will fit; it is shown, and set in the command line, in a "
        "copy of a --job file that the command names, or in the environment. What changes the numbers of the training "
        "(8-bit moments, FP8, adapters, shorter sequences) is left alone but for what --allow names.\n"
        "\n"
        "Exit code: the command's; 127 or 126 where it cannot be started.",
    .flags = flags_of_run(),
    .takes_keys = true,
    .streams = true,
    .examples = {{"plimsoll run -- python train.py", "measure"},
                 {"plimsoll run --job job.toml -- torchrun --nproc-per-node 8 train.py", "measure and compare"},
                 {"plimsoll run --job args.json --gpu h100 --gpus 1 --retry 2 -- python sft.py --config args.json",
                  "change what is cheapest and start again, until it fits"}},
    .run = run_run,
};

}  // namespace plimsoll::cli
