// SPDX-License-Identifier: Apache-2.0
// plimsoll watch: GPUs, ranks and host of a run that is under way.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/usage.h"
#include "cli/job_input.h"
#include "cli/verb.h"
#include "cli/watch_report.h"
#include "live/exporter.h"
#include "live/folder.h"
#include "live/signals.h"

namespace plimsoll::cli {

namespace {

Result<std::int64_t> number_of(const Arguments& arguments, std::string_view flag, std::int64_t fallback,
                               std::int64_t least) {
  const auto text = arguments.value(flag);
  if (!text) return fallback;
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || number < least)
    return usage_error(fmt::format("--{} is '{}'; wanted a whole number, at least {}", flag, *text, least));
  return number;
}

Result<live::Watcher::Target> target_of(const Arguments& arguments) {
  live::Watcher::Target target;
  target.all = arguments.has("all");
  if (arguments.operands.empty()) {
    if (!target.all) return usage_error("what to watch is missing", "plimsoll watch FOLDER, PID or --all");
    return target;
  }
  const std::string& operand = arguments.operands.front();
  std::int64_t pid = 0;
  const auto parsed = std::from_chars(operand.data(), operand.data() + operand.size(), pid);
  if (parsed.ec == std::errc{} && parsed.ptr == operand.data() + operand.size() && pid > 0) {
    if (!file_exists(fmt::format("/proc/{}/status", pid)))
      return bad_input(fmt::format("there is no process {}", pid), "give the number of a process on this machine");
    target.pid = pid;
    return target;
  }
  std::error_code error;
  if (!std::filesystem::is_directory(operand, error))
    return bad_input(fmt::format("{} is neither a process nor a folder", operand), "plimsoll run makes such a folder");
  target.folder = operand;
  return target;
}

// The job of the run, where it lies in its folder; watching goes on without it.
std::optional<live::Prediction> expected(const std::string& folder, const Arguments& arguments,
                                         const Console& console) {
  const std::string job = live::files_of(folder).job;
  if (folder.empty() || job.empty()) return std::nullopt;
  const auto world = world_of(arguments);
  answer::Input input;
  input.operands = {job};
  auto prediction =
      world ? live::predict(std::move(input), *world) : Result<live::Prediction>{tl::make_unexpected(world.error())};
  if (prediction) {
    say_learned(*world, prediction->job, console);
    return *std::move(prediction);
  }
  console.warn(fmt::format("no prediction: {}", to_string(prediction.error())));
  return std::nullopt;
}

// Waits; true when somebody wants us to end.
bool wait(int signals, std::int64_t milliseconds) {
  pollfd polled{signals, POLLIN, 0};
  if (poll(&polled, signals >= 0 ? 1 : 0, static_cast<int>(milliseconds)) <= 0) return false;
  signalfd_siginfo info{};
  if (read(signals, &info, sizeof info) != sizeof info) return false;
  return info.ssi_signo != SIGWINCH && info.ssi_signo != SIGCHLD;
}

Result<ExitCode> run_watch(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(target, target_of(arguments));
  PLIMSOLL_TRY(every, number_of(arguments, "every", 1000, 50));
  PLIMSOLL_TRY(count, number_of(arguments, "count", 0, 1));
  live::block_signals();
  const int signals = live::open_signals();
  std::unique_ptr<live::Exporter> exporter;
  if (const auto address = arguments.value("prometheus")) {
    PLIMSOLL_TRY(started, live::Exporter::start(*address));
    exporter = std::move(started);
    console.note(fmt::format("metrics at port {}, /metrics", exporter->port()));
  }
  const auto nvml = live::Nvml::load();
  live::Watcher watcher(target, nvml ? nvml->get() : nullptr, nvml ? std::string{} : to_string(nvml.error()));
  if (auto prediction = expected(target.folder, arguments, console)) watcher.expect(*std::move(prediction));
  const bool screen = isatty(fileno(console.out)) != 0 && !arguments.has("json");
  for (std::int64_t looks = 1;; ++looks) {
    const live::View view = watcher.look();
    if (exporter) exporter->set(live::metrics(view));
    if (arguments.has("json"))
      console.print(live::to_json(view));
    else if (screen)
      console.print("\x1b[H\x1b[2J" + watch_screen(view, console));
    else
      console.print(watch_lines(view));
    PLIMSOLL_TRY_STATUS(console.flush());
    // A scraper goes on asking after the run.
    if (looks == count || (view.ended && !exporter)) break;
    if (wait(signals, every)) break;
    if (target.pid > 0 && !file_exists(fmt::format("/proc/{}/status", target.pid))) break;
  }
  if (signals >= 0) close(signals);
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kWatch;
const Verb kWatch = {
    .name = "watch",
    .summary = "a live view of GPUs, ranks and host, with the predicted peak as a mark",
    .operands = "[PID | FOLDER]",
    .most_operands = 1,
    .details =
        "FOLDER is that of plimsoll run, here or on a shared disk: every rank with its steps, what it holds and held "
        "at "
        "most, the predicted peak as a mark, whether it grows and when the device would be full, and which rank holds "
        "more than its peers. PID shows a process and what descends from it. --all shows every device of this machine "
        "and who holds it.\n"
        "\n"
        "On a terminal it is a screen until Ctrl-C; else lines, one block per look. It ends when the run in FOLDER "
        "has, "
        "unless a scraper is served.",
    .flags = {{.name = "all", .argument = "", .help = "every device of this machine and its processes"},
              {.name = "every", .argument = "MS", .help = "milliseconds between two looks; 1000"},
              {.name = "count", .argument = "N", .help = "end after N looks"},
              {.name = "prometheus",
               .argument = "PORT",
               .help = "serve /metrics as well; a port alone is for this machine only, ADDRESS:PORT for others"},
              {.name = "calibration", .argument = "FILE", .help = "of the prediction"}},
    .streams = true,
    .examples = {{"plimsoll watch plimsoll-run-20261115-120000", "a run that is under way"},
                 {"plimsoll watch --all --count 1", "who holds which device, once"},
                 {"plimsoll watch runs/a --prometheus 0.0.0.0:9400", "for a scraper"}},
    .run = run_watch,
};

}  // namespace plimsoll::cli
