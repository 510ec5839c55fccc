// SPDX-License-Identifier: Apache-2.0
// plimsoll calibrate: what this machine's GPU reaches, as a file that --calibration takes.
#include "answer/calibrate.h"

#include <charconv>

#include <fmt/format.h>

#include "base/usage.h"
#include "base/write.h"
#include "cli/output_file.h"
#include "cli/own_process.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<int> device_of(const Arguments& arguments) {
  const std::string text = arguments.value("device").value_or("0");
  int device = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), device);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || device < 0)
    return usage_error(fmt::format("--device is '{}'; wanted the number of a GPU, from 0", text));
  return device;
}

std::string bar(double done, std::string_view what) {
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(done * kWidth);
  return fmt::format("[{}{}] {:3.0f} % {}", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(kWidth - filled), '.'), 100 * done, what);
}

std::string number(double value) { return value < 1e-3 ? fmt::format("{:.2g}", value) : fmt::format("{:.3f}", value); }

std::string report(const answer::Calibrated& calibrated, const Console& console) {
  const measure::Survey& survey = calibrated.survey;
  std::string text =
      fmt::format("{} ({}), driver {}, power limit {} W, measured in {:.0f} s\n\n", survey.device.name, calibrated.gpu,
                  survey.idle.driver.empty() ? "unknown" : survey.idle.driver,
                  survey.idle.power_limit > 0 ? fmt::format("{:.0f}", survey.idle.power_limit) : "?", survey.took);
  Table table({{"value", Align::kLeft},
               {"measured", Align::kRight},
               {"built in", Align::kRight},
               {"formula off", Align::kRight},
               {"from", Align::kLeft, true}});
  for (const auto* values : {&calibrated.derived.device, &calibrated.derived.values})
    for (const measure::DerivedValue& value : *values)
      table.add_row({std::string(value.name), number(value.value), number(value.built_in),
                     value.error_pct < 0 ? "-" : fmt::format("{:.1f} %", value.error_pct), value.source});
  text += table.to_text(console.width, console.colour_out);
  text += fmt::format("a launch takes the host {:.2f} us in the driver", 1e6 * survey.launch);
  if (survey.host)
    text += fmt::format(", {:.1f} us with Python and PyTorch (the middle half of the passes within {:.0f} %)",
                        1e6 * survey.host->seconds() / survey.host->launches, 100 * survey.host->spread);
  text += '\n';
  for (const std::string& left : survey.left_out) text += fmt::format("not measured: {}\n", left);
  return text + (survey.host ? "attention and grouped products keep their built-in values\n"
                             : "attention, grouped products and the host's Python keep their built-in values\n");
}

Result<ExitCode> measure_here(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(device, device_of(arguments));
  const answer::CalibrateQuestion question{device, arguments.has("quick"), arguments.values("library"),
                                           arguments.value("python").value_or("python3")};
  const auto progress = [&console](double done, std::string_view what) { console.told(bar(done, what)); };
  PLIMSOLL_TRY(calibrated, answer::calibrate(question, progress));
  const std::string json = answer::to_json(calibrated);
  if (const auto out = arguments.value("out")) PLIMSOLL_TRY_STATUS(write_whole(*out, json, existing_files(arguments)));
  console.print(arguments.has("json") ? json : report(calibrated, console));
  const std::string file = arguments.value("out").value_or("");
  console.next(file.empty() ? "the same with --out mine.json, then fit --calibration mine.json"
                            : fmt::format("plimsoll fit JOB --calibration {}", file));
  return ExitCode::kYes;
}

Result<ExitCode> run_calibrate(const Arguments& arguments, const Console& console) {
  return in_own_process(console, [&] { return measure_here(arguments, console); });
}

}  // namespace

extern const Verb kCalibrate;
const Verb kCalibrate = {
    .name = "calibrate",
    .summary = "measure this machine's GPU, for --calibration",
    .operands = "",
    .most_operands = 0,
    .details =
        "Times matrix products by format and shape, copies on the device and between host and device, launches, what "
        "Python and PyTorch cost the host, and messages between the GPUs of this machine, and writes what follows for "
        "predictions as a file that "
        "--calibration takes. It takes a minute or two and most of the GPU: run it while nothing else does.\n"
        "\n"
        "CUDA's driver, cuBLASLt and NCCL are loaded while it runs: from folders that --library names, from a toolkit, "
        "or from an installed PyTorch. Nothing is installed and nothing is sent anywhere.\n"
        "\n"
        "The file holds the GPU, its driver, clocks and power limit, and every time behind a value. Jobs on another "
        "GPU "
        "refuse it.\n"
        "\n"
        "Without a GPU, a driver or cuBLASLt the exit code is 4.",
    .flags = {{.name = "out", .argument = "FILE", .help = "write the calibration"},
              {.name = "device", .argument = "N", .help = "which GPU, counted from 0; the first if not given"},
              {.name = "library",
               .argument = "DIR",
               .help = "where libcublasLt and libnccl lie: a folder, a toolkit, or site-packages of a Python with "
                       "PyTorch",
               .repeats = true},
              {.name = "python",
               .argument = "PROGRAM",
               .help = "the Python that has your PyTorch, for the cost of launches on the host; python3 if not given"},
              {.name = "quick", .argument = "", .help = "fewer shapes: some seconds, less exact"},
              {.name = "force", .argument = "", .help = kForceHelp}},
    .streams = true,
    .examples = {{"plimsoll calibrate --out mine.json", "measure the first GPU"},
                 {"plimsoll fit job.toml --calibration mine.json", "and use it"}},
    .run = run_calibrate,
};

}  // namespace plimsoll::cli
